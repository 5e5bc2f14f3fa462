// Compiled without fused multiply-adds: equal numbers at every vector width.

#include "kv/compression/nearest_centroids.h"

#include <limits>

#include "base/vector_width.h"
#include "kv/compression/lanes.h"

namespace kvtide::kv {
namespace {

/// Centroids that the lanes hold side by side, with as many beyond all distances as fill the last register.
struct CentroidLanes {
  std::vector<float> channels;  ///< [group of kNumLanes, channel, lane]
  std::vector<float> squares;   ///< [group, lane] |c|^2
};

CentroidLanes lanes_of(const RowMatrix& centroids) {
  const std::int64_t padded = whole_lanes(centroids.rows());
  CentroidLanes result{std::vector<float>(static_cast<std::size_t>(padded * centroids.cols()), 0.0F),
                       std::vector<float>(static_cast<std::size_t>(padded), std::numeric_limits<float>::infinity())};
  for (std::int64_t index = 0; index < centroids.rows(); ++index) {
    result.squares[static_cast<std::size_t>(index)] = centroids.row(index).squaredNorm();
    float* of_group = result.channels.data() + index / kNumLanes * kNumLanes * centroids.cols() + index % kNumLanes;
    for (std::int64_t channel = 0; channel < centroids.cols(); ++channel) {
      of_group[channel * kNumLanes] = centroids(index, channel);
    }
  }
  return result;
}

using Groups = std::int32_t __attribute__((vector_size(kNumLanes * sizeof(std::int32_t))));

KVTIDE_EVERY_VECTOR_WIDTH
void find_nearest(const float* rows, std::int64_t num_rows, std::int64_t num_channels, const float* centroids,
                  const float* squares, std::int64_t num_groups, std::int64_t* nearest) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* of_row = rows + row * num_channels;
    Lanes least = Lanes{} + std::numeric_limits<float>::infinity();
    Groups group_of = {};
    for (std::int64_t group = 0; group < num_groups; ++group) {
      const float* of_group = centroids + group * num_channels * kNumLanes;
      Lanes products = {};
      for (std::int64_t channel = 0; channel < num_channels; ++channel) {
        Lanes of_channel;
        load(of_group + channel * kNumLanes, of_channel);
        products += of_row[channel] * of_channel;
      }
      Lanes distances;
      load(squares + group * kNumLanes, distances);
      distances += -2.0F * products;
      group_of = distances < least ? Groups{} + static_cast<std::int32_t>(group) : group_of;
      least = distances < least ? distances : least;
    }
    std::int64_t best = 0;
    for (std::int64_t lane = 1; lane < kNumLanes; ++lane) {
      const bool is_nearer =
          least[lane] < least[best] || (least[lane] == least[best] && group_of[lane] < group_of[best]);
      best = is_nearer ? lane : best;
    }
    nearest[row] = group_of[best] * kNumLanes + best;
  }
}

}  // namespace

std::vector<std::int64_t> nearest_centroids(const RowMatrix& rows, const RowMatrix& centroids) {
  const CentroidLanes lanes = lanes_of(centroids);
  std::vector<std::int64_t> nearest(static_cast<std::size_t>(rows.rows()));
  find_nearest(rows.data(), rows.rows(), rows.cols(), lanes.channels.data(), lanes.squares.data(),
               whole_lanes(centroids.rows()) / kNumLanes, nearest.data());
  return nearest;
}

}  // namespace kvtide::kv
