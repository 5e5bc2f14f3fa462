#include "kv/merged_layers.h"

#include <algorithm>

#include "base/error.h"
#include "kv/compression/evict.h"
#include "kv/compression/half_rounding.h"
#include "kv/layer_sharing.h"

namespace kvtide::kv {
namespace {

using Row = Eigen::RowVectorXf;
using Part = RowMatrix HeadTensors::*;

/// Halfway between the directions of the layers; zero where they cancel out or there is none.
Row direction_of(const std::vector<const LayerTensors*>& group, std::size_t head, Part part, std::int64_t position) {
  Row sum = Row::Zero((group.front()->at(head).*part).cols());
  for (const LayerTensors* layer : group) sum += ((*layer)[head].*part).row(position).normalized();
  return sum.normalized();
}

}  // namespace

std::vector<LayerTensors> merged_layers(const std::vector<const LayerTensors*>& group, std::int64_t num_positions,
                                        PartsPerMillion retained) {
  KVTIDE_ASSERT(group.size() > 1, "one layer has nothing to be merged with");
  std::vector<LayerTensors> merged;
  merged.reserve(group.size());
  for (const LayerTensors* layer : group) merged.push_back(*layer);
  const auto size = static_cast<std::size_t>(num_positions);
  for (std::size_t head = 0; head < group.front()->size(); ++head) {
    std::vector<double> unlike(size, 0.0);
    for (const Part part : {&HeadTensors::k_post, &HeadTensors::v}) {
      for (std::int64_t position = 0; position < num_positions; ++position) {
        const Row direction = direction_of(group, head, part, position);
        double least = 1;
        for (const LayerTensors* layer : group) {
          const double cosine = ((*layer)[head].*part).row(position).normalized().dot(direction);
          least = std::min(least, cosine);
        }
        unlike[static_cast<std::size_t>(position)] -= least;
      }
    }
    const std::vector<std::size_t> stays = best_positions(unlike, retained_positions(num_positions, retained));
    PositionMask is_retained(size, 0);
    for (const std::size_t position : stays) is_retained[position] = 1;
    // Rotation keeps angles, so that keys before it are merged alike.
    for (const Part part : {&HeadTensors::k_pre, &HeadTensors::k_post, &HeadTensors::v}) {
      for (std::int64_t position = 0; position < num_positions; ++position) {
        if (is_retained[static_cast<std::size_t>(position)] != 0) continue;
        Row direction = direction_of(group, head, part, position);
        round_to_half(direction.data(), direction.size());
        for (std::size_t layer = 0; layer < group.size(); ++layer) {
          auto row = (merged[layer][head].*part).row(position);
          row = direction * nearest_half(row.norm());
        }
      }
    }
  }
  return merged;
}

}  // namespace kvtide::kv
