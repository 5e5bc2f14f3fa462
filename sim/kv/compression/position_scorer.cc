#include "kv/compression/position_scorer.h"

#include <algorithm>

#include "kv/partition.h"

namespace kvtide::kv {
namespace {

LayerScores for_every_head(const ScorerContext& context, const std::vector<double>& scores) {
  return LayerScores(static_cast<std::size_t>(context.num_heads), scores);
}

LayerScores streaming(const LayerTensors& /*layer*/, const ScorerContext& context) {
  const std::int64_t removed = context.num_positions - kept_count(context.num_positions, context.keep);
  std::vector<double> scores(static_cast<std::size_t>(context.num_positions), 1.0);
  const std::int64_t first = std::min(context.integer("sinks"), context.num_positions);
  const std::int64_t end = std::min(first + removed, context.num_positions);
  std::fill(scores.begin() + first, scores.begin() + end, 0.0);
  return for_every_head(context, scores);
}

LayerScores first(const LayerTensors& /*layer*/, const ScorerContext& context) {
  std::vector<double> scores;
  for (std::int64_t position = 0; position < context.num_positions; ++position) {
    scores.push_back(static_cast<double>(-position));
  }
  return for_every_head(context, scores);
}

LayerScores newest(const LayerTensors& /*layer*/, const ScorerContext& context) {
  std::vector<double> scores;
  for (std::int64_t position = 0; position < context.num_positions; ++position) {
    scores.push_back(static_cast<double>(position));
  }
  return for_every_head(context, scores);
}

LayerScores strided(const LayerTensors& /*layer*/, const ScorerContext& context) {
  const std::int64_t stride = context.integer("stride");
  std::vector<double> scores;
  for (std::int64_t position = 0; position < context.num_positions; ++position) {
    scores.push_back(position % stride == 0 ? 1.0 : 0.0);
  }
  return for_every_head(context, scores);
}

ScorerNeeds nothing(bool keep_ratio = false) {
  return {.keys = false, .positions_only = true, .keep_ratio = keep_ratio, .flops_per_key_element = 0};
}

}  // namespace

ScorerEntry streaming_scorer() {
  return {"streaming",        "the first `sinks` positions and the newest",
          "arXiv 2309.17453", {{"sinks", 4, 0, 1 << 20, true, "first positions that stay"}},
          nothing(true),      &streaming};
}

ScorerEntry first_scorer() {
  return {"first", "control: the earlier, the better", "", {}, nothing(), &first};
}

ScorerEntry newest_scorer() {
  return {"newest", "control: the later, the better", "", {}, nothing(), &newest};
}

ScorerEntry strided_scorer() {
  return {"strided", "control: every `stride`-th position",
          "",        {{"stride", 2, 1, 1 << 20, true, "distance of kept positions"}},
          nothing(), &strided};
}

}  // namespace kvtide::kv
