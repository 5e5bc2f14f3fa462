#include "kv/layer_sharing.h"

namespace kvtide::kv {

std::int64_t LayerSharing::owner(std::int64_t layer, std::int64_t num_layers) const {
  const std::int64_t first = first_layer(num_layers);
  if (!is_on() || layer < first) return layer;
  return group == 0 ? first : first + (layer - first) / group * group;
}

bool LayerSharing::is_shared(std::int64_t layer, std::int64_t num_layers) const {
  return owner(layer, num_layers) != layer || (layer + 1 < num_layers && owner(layer + 1, num_layers) == layer);
}

std::int64_t retained_positions(std::int64_t num_positions, PartsPerMillion retained) {
  return (num_positions * retained + 999'999) / 1'000'000;
}

Bytes merged_bytes(const LayerSharing& sharing, std::int64_t num_positions, std::int64_t head_dim) {
  if (!sharing.merges) return 0;
  const std::int64_t retained = retained_positions(num_positions, sharing.retained);
  return static_cast<Bytes>(num_positions * 4 + retained * (4 * head_dim + 4));
}

}  // namespace kvtide::kv
