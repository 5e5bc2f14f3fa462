#include "kv/compression/keydiff_scorer.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {
namespace {

constexpr float kSmallestNorm = 1e-12F;    // a zero key has no direction
constexpr double kSmallestProduct = 1e-8;  // nor has a zero mean

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const auto keys = head.k_post.topRows(context.num_positions);
    const Eigen::VectorXf norms = keys.rowwise().norm();
    const Eigen::VectorXf weights =
        norms.cwiseMax(kSmallestNorm).cwiseInverse() / static_cast<float>(context.num_positions);
    const Eigen::VectorXf mean = keys.transpose() * weights;
    const double mean_norm = std::max<double>(static_cast<double>(mean.norm()), kSmallestProduct);
    const Eigen::VectorXf products = keys * mean;
    result.emplace_back(products.size());
    for (std::int64_t position = 0; position < products.size(); ++position) {
      const double norm = std::max<double>(static_cast<double>(norms[position]), kSmallestProduct);
      result.back()[static_cast<std::size_t>(position)] = -static_cast<double>(products[position]) / (norm * mean_norm);
    }
  }
  return result;
}

}  // namespace

ScorerEntry keydiff_scorer() {
  return {"keydiff",
          "minus the cosine of a key with the mean direction of all keys",
          "arXiv 2504.15364",
          {},
          {.flops_per_key_element = 6},
          &scores};
}

}  // namespace kvtide::kv
