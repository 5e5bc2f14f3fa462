#include "kv/compression/snapkv_scorer.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

/// Mean over `kernel` neighbours, zeros beyond the ends counted.
std::vector<double> smoothed(const std::vector<double>& values, std::int64_t kernel) {
  const auto size = static_cast<std::int64_t>(values.size());
  std::vector<double> result(values.size(), 0.0);
  for (std::int64_t position = 0; position < size; ++position) {
    const std::int64_t first = std::max<std::int64_t>(position - kernel / 2, 0);
    const std::int64_t end = std::min(position - kernel / 2 + kernel, size);
    double sum = 0;
    for (std::int64_t index = first; index < end; ++index) sum += values[static_cast<std::size_t>(index)];
    result[static_cast<std::size_t>(position)] = sum / static_cast<double>(kernel);
  }
  return result;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t window = std::min(context.integer("window"), context.num_positions);
  const std::int64_t before = context.num_positions - window;
  LayerScores result;
  double largest = 0;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, before, context.num_positions, "snapkv");
    std::vector<double> mass = attention_columns(head, rows, context.num_positions);
    mass.resize(static_cast<std::size_t>(before));
    for (double& value : mass) value /= static_cast<double>(window * head.group_size);
    result.push_back(smoothed(mass, context.integer("kernel")));
    for (const double value : result.back()) largest = std::max(largest, value);
  }
  for (auto& of_head : result) of_head.resize(static_cast<std::size_t>(context.num_positions), largest + 1);
  return result;
}

}  // namespace

ScorerEntry snapkv_scorer() {
  return {"snapkv",
          "mean attention of the last `window` queries, smoothed over `kernel` neighbours; the window stays",
          "arXiv 2404.14469",
          {{"window", 64, 1, 65536, true, "newest queries that score, and stay"},
           {"kernel", 5, 1, 65535, true, "positions averaged"}},
          {.queries = ScorerNeeds::Queries::window},
          &scores};
}

}  // namespace kvtide::kv
