// Coupled quantization (arXiv 2405.03917): 8 neighbouring channels share one 8-bit number, the index of the nearest of 256
// centroids: 1 bit an element. Keys before RoPE.
// Centroids are learned offline, a constant of the model, and not charged. Here rows of even order are stored with centroids
// learned on the rows of odd order and the other way round, so that no row is stored with centroids it taught.

#include <algorithm>

#include "kv/compression/codec.h"
#include "kv/compression/nearest_centroids.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kChannels = 8;
constexpr std::int64_t kCentroids = 256;
constexpr int kRounds = 4;

/// k-means that starts at evenly spaced rows.
RowMatrix learn(const RowMatrix& rows) {
  const std::int64_t count = std::min(kCentroids, rows.rows());
  RowMatrix centroids(count, rows.cols());
  for (std::int64_t index = 0; index < count; ++index) centroids.row(index) = rows.row(index * rows.rows() / count);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::int64_t> owner = nearest_centroids(rows, centroids);
    RowMatrix sum = RowMatrix::Zero(count, rows.cols());
    std::vector<std::int64_t> members(static_cast<std::size_t>(count), 0);
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      const std::int64_t centroid = owner[static_cast<std::size_t>(row)];
      sum.row(centroid) += rows.row(row);
      members[static_cast<std::size_t>(centroid)] += 1;
    }
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int64_t size = members[static_cast<std::size_t>(index)];
      if (size > 0) centroids.row(index) = sum.row(index) / static_cast<float>(size);
    }
  }
  return centroids;
}

RowMatrix every_other(const RowMatrix& values, std::int64_t parity, std::int64_t column) {
  const std::int64_t count = (values.rows() + 1 - parity) / 2;
  RowMatrix half(count, kChannels);
  for (std::int64_t index = 0; index < count; ++index) {
    half.row(index) = values.row(2 * index + parity).segment(column, kChannels);
  }
  return half;
}

void code(const CodecUse&, const CodecRows& rows) {
  RowMatrix& values = *rows.values;
  if (values.rows() < 2) return;  // nobody to learn from
  for (std::int64_t column = 0; column < values.cols(); column += kChannels) {
    const RowMatrix even = every_other(values, 0, column);
    const RowMatrix odd = every_other(values, 1, column);
    for (std::int64_t parity = 0; parity < 2; ++parity) {
      const RowMatrix& stored = parity == 0 ? even : odd;
      const RowMatrix centroids = learn(parity == 0 ? odd : even);
      const std::vector<std::int64_t> index = nearest_centroids(stored, centroids);
      for (std::int64_t row = 0; row < stored.rows(); ++row) {
        values.row(2 * row + parity).segment(column, kChannels) = centroids.row(index[static_cast<std::size_t>(row)]);
      }
    }
  }
}

}  // namespace

std::vector<Codec> coupled_codecs() {
  return {{.name = "cq8c8b",
           .summary = "8 channels share the 8-bit index of one of 256 learned centroids; keys before RoPE",
           .paper = "arXiv 2405.03917",
           .bits = 1,
           .read_cost = 0.5,  // a look-up gives 8 channels
           .write_operations = 512,
           .k_rope = RopeState::pre,
           .divisor = kChannels,
           .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / kChannels); },
           .code = &code}};
}

}  // namespace kvtide::kv
