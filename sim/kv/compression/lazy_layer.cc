#include "kv/compression/lazy_layer.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {

double lazy_share(const LayerTensors& layer, std::int64_t num_positions, const LazyRule& rule) {
  const std::int64_t before = num_positions - std::min(rule.queries, num_positions);
  double sum = 0;
  std::int64_t num_query_heads = 0;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, before, num_positions, "a lazy layer");
    const std::vector<double> mass = attention_columns(head, rows, num_positions);
    for (std::int64_t position = 0; position < before; ++position) {
      // A position that is both a sink and among the newest counts twice, as in the peer's code; longer contexts have none.
      const double value = mass[static_cast<std::size_t>(position)];
      if (position < rule.sinks) sum += value;
      if (position >= before - rule.newest) sum += value;
    }
    num_query_heads += head.group_size;
  }
  return sum / static_cast<double>(num_query_heads * std::max<std::int64_t>(num_positions - before, 1));
}

}  // namespace kvtide::kv
