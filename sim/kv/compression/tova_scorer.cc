#include "kv/compression/tova_scorer.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t last = context.num_positions - 1;
  std::vector<double> mean(static_cast<std::size_t>(last), 0.0);
  std::int64_t num_query_heads = 0;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, last, last + 1, "tova");
    const std::vector<double> mass = attention_columns(head, rows, context.num_positions);
    for (std::size_t position = 0; position < mean.size(); ++position) mean[position] += mass[position];
    num_query_heads += head.group_size;
  }
  for (double& value : mean) value /= static_cast<double>(num_query_heads);
  mean.push_back((mean.empty() ? 0.0 : *std::ranges::max_element(mean)) + 1);
  return LayerScores(layer.size(), mean);
}

}  // namespace

ScorerEntry tova_scorer() {
  return {"tova",
          "attention of the newest query, mean over all heads of the layer; the newest position stays",
          "arXiv 2401.06104",
          {},
          {.queries = ScorerNeeds::Queries::last},
          &scores};
}

}  // namespace kvtide::kv
