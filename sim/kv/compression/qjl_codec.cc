// QJL (arXiv 2406.03482), for keys: the signs of 2 d random projections and the length of the key. The estimate of q.k is
// |k| sqrt(pi/2) / m * sum_i (S q)_i sign((S k)_i), which equals q.k^ for k^ = |k| sqrt(pi/2) / m * S^T sign(S k): that k^ is
// what attention sees here. The 8 channels of largest norm in each group of 32 tokens are sketched apart, with d signs and a
// length of their own. S is random and orthogonal in blocks of d rows, as the authors' code makes it.
// Example, head_dim 128: 256 + 128 signs, two fp16 lengths: 52 B a row, 3.25 bits; 8 B of channel numbers a group.

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "kv/compression/codec.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kOutliers = 8;
constexpr std::int64_t kGroup = 32;
constexpr std::int64_t kLengthBytes = 4;  // two lengths in fp16

/// [2 d, d]: two random orthogonal matrices, rows of length sqrt(d).
RowMatrix projection(std::int64_t channels) {
  RandomStream stream(static_cast<std::uint64_t>(channels), "qjl_projection");
  RowMatrix rows(2 * channels, channels);
  for (std::int64_t half = 0; half < 2; ++half) {
    Eigen::MatrixXf gaussian(channels, channels);
    for (std::int64_t element = 0; element < gaussian.size(); ++element) {
      gaussian.data()[element] = static_cast<float>(stream.normal());
    }
    const Eigen::MatrixXf orthogonal = Eigen::HouseholderQR<Eigen::MatrixXf>(gaussian).householderQ();
    rows.middleRows(half * channels, channels) = orthogonal * std::sqrt(static_cast<float>(channels));
  }
  return rows;
}

/// What the signs of the first `num_signs` projections and the length say of each row.
RowMatrix estimate(const RowMatrix& rows, const RowMatrix& sketch, std::int64_t num_signs) {
  const auto used = sketch.topRows(num_signs);
  RowMatrix signs = rows * used.transpose();
  signs = signs.unaryExpr([](float x) { return x > 0 ? 1.0F : -1.0F; });
  RowMatrix result = signs * used;
  const float scale = std::sqrt(std::numbers::pi_v<float> / 2) / static_cast<float>(num_signs);
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const auto length = static_cast<float>(static_cast<Eigen::half>(rows.row(row).norm()));
    result.row(row) *= length * scale;
  }
  return result;
}

std::vector<std::int64_t> largest_channels(const RowMatrix& rows) {
  const Eigen::RowVectorXf norms = rows.colwise().squaredNorm();
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.cols()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) { return norms[left] > norms[right]; });
  order.resize(static_cast<std::size_t>(std::min(kOutliers, rows.cols())));
  return order;
}

void code(const CodecUse&, const CodecRows& rows) {
  const RowMatrix sketch = projection(rows.values->cols());
  std::int64_t first = 0;
  for (const std::int64_t num_rows : rows.block_rows) {
    for (std::int64_t row = first; row < first + num_rows; row += kGroup) {
      const std::int64_t count = std::min(kGroup, first + num_rows - row);
      RowMatrix inliers = rows.values->middleRows(row, count);
      RowMatrix outliers = RowMatrix::Zero(count, inliers.cols());
      for (const std::int64_t channel : largest_channels(inliers)) {
        outliers.col(channel) = inliers.col(channel);
        inliers.col(channel).setZero();
      }
      rows.values->middleRows(row, count) =
          estimate(inliers, sketch, 2 * inliers.cols()) + estimate(outliers, sketch, inliers.cols());
    }
    first += num_rows;
  }
}

}  // namespace

std::vector<Codec> qjl_codecs() {
  return {{.name = "qjl",
           .summary = "signs of 2 d random projections and the length; 8 large channels apart; for keys",
           .paper = "arXiv 2406.03482",
           .bits = 3,
           .read_cost = 1.5,  // 3 sign-controlled additions an element, the query being projected once
           .write_operations = 768,
           .divisor = 8,
           .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(3 * use.columns / 8 + kLengthBytes); },
           .block_metadata =
               [](const CodecUse&, std::int64_t num_rows) {
                 return static_cast<Bytes>(ceil_div(num_rows, kGroup) * kOutliers);
               },
           .code = &code}};
}

}  // namespace kvtide::kv
