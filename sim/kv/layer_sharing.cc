#include "kv/layer_sharing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace kvtide::kv {

std::vector<std::int64_t> LayerSharing::owners(const std::vector<std::int64_t>& shape_of_layer) const {
  const auto num_layers = static_cast<std::int64_t>(shape_of_layer.size());
  struct Group {
    std::int64_t owner = 0;
    std::int64_t size = 0;
  };
  std::map<std::int64_t, Group> open_group_of;  // by shape
  std::vector<std::int64_t> owners(shape_of_layer.size());
  std::iota(owners.begin(), owners.end(), std::int64_t{0});
  if (!is_on()) return owners;
  for (std::int64_t layer = first_layer(num_layers); layer < num_layers; ++layer) {
    const std::int64_t shape = shape_of_layer[static_cast<std::size_t>(layer)];
    if (shape == kNeverShares) continue;
    Group& open = open_group_of[shape];
    if (open.size == 0) open.owner = layer;
    owners[static_cast<std::size_t>(layer)] = open.owner;
    open.size = open.size + 1 == group ? 0 : open.size + 1;
  }
  return owners;
}

std::vector<std::int64_t> LayerSharing::owners(std::int64_t num_layers) const {
  return owners(std::vector<std::int64_t>(static_cast<std::size_t>(num_layers), 0));
}

bool is_shared(const std::vector<std::int64_t>& owners, std::int64_t layer) {
  return std::ranges::count(owners, owners[static_cast<std::size_t>(layer)]) > 1;
}

std::int64_t retained_positions(std::int64_t num_positions, PartsPerMillion retained) {
  return (num_positions * retained + 999'999) / 1'000'000;
}

Bytes merged_bytes(const LayerSharing& sharing, std::int64_t num_positions, std::int64_t head_dim, bool is_latent) {
  if (!sharing.merges) return 0;
  const std::int64_t retained = retained_positions(num_positions, sharing.retained);
  const std::int64_t num_tensors = is_latent ? 1 : 2;
  return static_cast<Bytes>(num_positions * 2 * num_tensors + retained * (2 * num_tensors * head_dim + 4));
}

}  // namespace kvtide::kv
