#include "kv/compression/leverage_scorer.h"

#include <Eigen/Cholesky>
#include <cmath>

#include "base/random.h"
#include "kv/compression/row_statistics.h"
#include "kv/compression/standardise.h"

namespace kvtide::kv {
namespace {

constexpr double kRidge = 0.01;  // keeps the sketch's Gram matrix invertible

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  return leverage_scores(layer, 0, context.num_positions, context.integer("sketch"), context.seed);
}

}  // namespace

LayerScores leverage_scores(const LayerTensors& layer, std::int64_t first, std::int64_t end, std::int64_t sketch,
                            std::uint64_t seed) {
  RandomStream stream(seed, "leverage_scorer");
  LayerScores result;
  for (const HeadTensors& head : layer) {
    RowMatrix projection(head.head_dim(), sketch);
    for (std::int64_t element = 0; element < projection.size(); ++element) {
      projection.data()[element] = static_cast<float>(stream.normal() / std::sqrt(static_cast<double>(sketch)));
    }
    // s (S'S + r I)^-1 s' with s = x P is x M x' with M = P (P'X'XP + r I)^-1 P'.
    const auto keys = head.k_pre.middleRows(first, end - first);
    const std::vector<float> even(static_cast<std::size_t>(keys.rows()), 1.0F / static_cast<float>(keys.rows()));
    const Eigen::VectorXf mean = weighted_sum(keys, even).cast<float>();
    const auto centre = std::span(mean.data(), static_cast<std::size_t>(mean.size()));
    const Eigen::MatrixXd sketching = projection.cast<double>();
    Eigen::MatrixXd squares = sketching.transpose() * gram(keys, centre) * sketching;
    squares.diagonal().array() += kRidge;
    const Eigen::MatrixXd form = sketching * squares.llt().solve(sketching.transpose());
    const std::vector<float> leverage = quadratic_forms(keys, form, centre);
    result.emplace_back(leverage.begin(), leverage.end());
  }
  standardise(result);
  return result;
}

ScorerEntry leverage_scorer() {
  return {"leverage",
          "how far a centred key stands out from the others, through a random sketch",
          "arXiv 2507.08143",
          {{"sketch", 48, 1, 4096, true, "columns of the Gaussian sketch"}},
          {.keys_before_rope = true, .flops_per_key_element = 200},
          &scores};
}

}  // namespace kvtide::kv
