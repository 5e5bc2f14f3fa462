#include "kv/compression/knorm_scorer.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const Eigen::VectorXf norms = head.k_post.topRows(context.num_positions).rowwise().norm();
    result.emplace_back(norms.size());
    for (std::int64_t position = 0; position < norms.size(); ++position) {
      result.back()[static_cast<std::size_t>(position)] = -static_cast<double>(norms[position]);
    }
  }
  return result;
}

}  // namespace

ScorerEntry knorm_scorer() {
  return {"knorm", "minus the length of the key", "arXiv 2406.11430", {}, {.own_row_only = true}, &scores};
}

}  // namespace kvtide::kv
