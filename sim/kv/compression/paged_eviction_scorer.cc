#include "kv/compression/paged_eviction_scorer.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  constexpr float kSmallest = 1e-12F;
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const Eigen::VectorXf ratio =
        head.v.topRows(context.num_positions)
            .rowwise()
            .norm()
            .cwiseQuotient(head.k_post.topRows(context.num_positions).rowwise().norm().cwiseMax(kSmallest));
    result.emplace_back(ratio.begin(), ratio.end());
  }
  return result;
}

}  // namespace

ScorerEntry paged_eviction_scorer() {
  return {"paged_eviction",
          "length of the value over length of the key",
          "arXiv 2509.04377",
          {},
          {.values = true, .own_row_only = true, .flops_per_key_element = 4},
          &scores};
}

}  // namespace kvtide::kv
