#include "kv/compression/attention_sum_scorer.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {

LayerScores attention_sum_scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t first = std::max<std::int64_t>(0, context.num_positions - context.score_window);
  LayerScores scores;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, first, context.num_positions, "attention_sum");
    scores.push_back(attention_columns(head, rows, context.num_positions));
  }
  return scores;
}

ScorerEntry attention_sum_scorer() {
  return {"attention_sum",
          "softmax mass received from the last score_window queries, summed over the group",
          "arXiv 2306.14048",
          {},
          {.queries = ScorerNeeds::Queries::window},
          &attention_sum_scores};
}

}  // namespace kvtide::kv
