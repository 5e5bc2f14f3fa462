#include "kv/compression/observed_attention_scorer.h"

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const bool is_normalised = context.integer("normalise") == 1;
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, 0, context.num_positions, "observed_attention");
    std::vector<double> mass = attention_columns(head, rows, context.num_positions);
    for (std::int64_t position = 0; position < context.num_positions; ++position) {
      double& value = mass[static_cast<std::size_t>(position)];
      value /= static_cast<double>(head.group_size);
      if (is_normalised) value /= static_cast<double>(context.num_positions - position);
    }
    result.push_back(std::move(mass));
  }
  return result;
}

}  // namespace

ScorerEntry observed_attention_scorer() {
  return {"observed_attention",
          "attention received from every query so far, a query that could see it (normalise 0: in all, H2O)",
          "arXiv 2306.14048",
          {{"normalise", 1, 0, 1, true, "1: divided by the queries that see the position"}},
          {.queries = ScorerNeeds::Queries::all},
          &scores};
}

}  // namespace kvtide::kv
