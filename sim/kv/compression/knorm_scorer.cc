#include "kv/compression/knorm_scorer.h"

#include <cmath>

#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head = result.emplace_back();
    of_head.reserve(static_cast<std::size_t>(context.num_positions));
    for (const float square : squared_lengths(head.k_post, context.num_positions)) {
      of_head.push_back(-static_cast<double>(std::sqrt(square)));
    }
  }
  return result;
}

}  // namespace

ScorerEntry knorm_scorer() {
  return {"knorm", "minus the length of the key", "arXiv 2406.11430", {}, {.own_row_only = true}, &scores};
}

}  // namespace kvtide::kv
