#include "kv/compression/keydiff_scorer.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

constexpr float kSmallestNorm = 1e-12F;    // a zero key has no direction
constexpr double kSmallestProduct = 1e-8;  // nor has a zero mean

/// A head's keys with what does not depend on which of them are in the cache.
class DirectedKeys {
 public:
  explicit DirectedKeys(const Eigen::Ref<const RowMatrix>& keys)
      : keys_(keys), norms_(squared_lengths(keys, keys.rows())) {
    for (float& norm : norms_) norm = std::sqrt(norm);
  }

  /// @param chosen  the positions in the cache; null: all
  [[nodiscard]] std::vector<double> scores(const std::vector<std::int64_t>* chosen = nullptr) const {
    const std::size_t count = chosen == nullptr ? norms_.size() : chosen->size();
    const std::int64_t* positions = chosen == nullptr ? nullptr : chosen->data();
    const auto norm_of = [&](std::size_t index) {
      return norms_[positions == nullptr ? index : static_cast<std::size_t>(positions[index])];
    };
    std::vector<float> weights(count);
    for (std::size_t index = 0; index < count; ++index) {
      weights[index] = 1 / std::max(norm_of(index), kSmallestNorm) / static_cast<float>(count);
    }
    const Eigen::VectorXf mean = weighted_sum(keys_, weights, positions).cast<float>();
    const double mean_norm = std::max<double>(static_cast<double>(mean.norm()), kSmallestProduct);
    const std::vector<float> products =
        single_row_products(mean.data(), keys_, static_cast<std::int64_t>(count), 1.0F, positions);
    std::vector<double> result(count);
    for (std::size_t index = 0; index < count; ++index) {
      const double norm = std::max<double>(static_cast<double>(norm_of(index)), kSmallestProduct);
      result[index] = -static_cast<double>(products[index]) / (norm * mean_norm);
    }
    return result;
  }

 private:
  Eigen::Ref<const RowMatrix> keys_;
  std::vector<float> norms_;  ///< [position]
};

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    result.push_back(DirectedKeys(head.k_post.topRows(context.num_positions)).scores());
  }
  return result;
}

Rescore rescore(const LayerTensors& layer, const ScorerContext& context) {
  std::vector<DirectedKeys> heads;
  for (const HeadTensors& head : layer) heads.emplace_back(head.k_post.topRows(context.num_positions));
  return [heads = std::move(heads)](std::size_t head, const std::vector<std::int64_t>& positions) {
    return heads[head].scores(&positions);
  };
}

}  // namespace

ScorerEntry keydiff_scorer() {
  return {"keydiff",
          "minus the cosine of a key with the mean direction of all keys",
          "arXiv 2504.15364",
          {},
          {.flops_per_key_element = 6},
          &scores,
          &rescore};
}

}  // namespace kvtide::kv
