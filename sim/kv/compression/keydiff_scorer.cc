#include "kv/compression/keydiff_scorer.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

constexpr float kSmallestNorm = 1e-12F;    // a zero key has no direction
constexpr double kSmallestProduct = 1e-8;  // nor has a zero mean

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const auto keys = head.k_post.topRows(context.num_positions);
    std::vector<float> norms = squared_lengths(keys, keys.rows());
    std::vector<float> weights(norms.size());
    for (std::size_t position = 0; position < norms.size(); ++position) {
      norms[position] = std::sqrt(norms[position]);
      weights[position] = 1 / std::max(norms[position], kSmallestNorm) / static_cast<float>(context.num_positions);
    }
    const Eigen::VectorXf mean = weighted_sum(keys, weights).cast<float>();
    const double mean_norm = std::max<double>(static_cast<double>(mean.norm()), kSmallestProduct);
    std::vector<float> products(norms.size());
    single_row_products(mean.data(), keys, keys.rows(), 1.0F, products.data());
    std::vector<double>& of_head = result.emplace_back(norms.size());
    for (std::size_t position = 0; position < norms.size(); ++position) {
      const double norm = std::max<double>(static_cast<double>(norms[position]), kSmallestProduct);
      of_head[position] = -static_cast<double>(products[position]) / (norm * mean_norm);
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
