#include "kv/compression/finch_scorer.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t window = std::min(context.integer("window"), context.num_positions);
  const std::int64_t before = context.num_positions - window;
  std::vector<double> seen;
  for (std::int64_t position = before; position < context.num_positions; ++position) {
    seen.push_back(static_cast<double>(position));
  }
  LayerScores result;
  double largest = 0;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, before, context.num_positions, "finch");
    std::vector<double> mass = attention_columns(head, rows, context.num_positions, seen);
    mass.resize(static_cast<std::size_t>(before));
    for (double& value : mass) {
      value /= static_cast<double>(window * head.group_size);
      largest = std::max(largest, value);
    }
    result.push_back(std::move(mass));
  }
  for (auto& of_head : result) of_head.resize(static_cast<std::size_t>(context.num_positions), largest + 1);
  return result;
}

}  // namespace

ScorerEntry finch_scorer() {
  return {"finch",
          "attention of the question's queries, each times the positions it could see; the question stays",
          "tacl_a_00716",
          {{"window", 32, 1, 65536, true, "newest queries, the question"}},
          {.queries = ScorerNeeds::Queries::window},
          &scores};
}

}  // namespace kvtide::kv
