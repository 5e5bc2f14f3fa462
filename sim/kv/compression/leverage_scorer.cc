#include "kv/compression/leverage_scorer.h"

#include <Eigen/Cholesky>
#include <cmath>

#include "base/random.h"
#include "kv/compression/dot_products.h"
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
    RowMatrix keys = head.k_pre.middleRows(first, end - first);
    keys.rowwise() -= keys.colwise().sum() / static_cast<float>(keys.rows());
    const RowMatrix sketched = row_products(keys, projection.transpose().eval());
    Eigen::MatrixXd squares = gram(sketched);
    squares.diagonal().array() += kRidge;
    const Eigen::MatrixXd inverse = squares.llt().solve(Eigen::MatrixXd::Identity(sketch, sketch));
    const Eigen::VectorXf leverage =
        row_products(sketched, inverse.cast<float>()).cwiseProduct(sketched).rowwise().sum();
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
