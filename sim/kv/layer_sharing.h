#pragma once
// Layers that share one layer's keys and values. Memory holds the owner's once; every layer of the group still reads it in
// each decode step, so that capacity grows and traffic stays.
//
//   cross-layer attention (CLA-2, arXiv 2405.12981): {group: 2}: layers 2i and 2i+1 share the cache of 2i
//   YOCO (arXiv 2405.05254): {from: 0.5, group: 0, window: W}: the upper half shares one cache, below it are windows
//   MiniCache (arXiv 2405.14366): {from: 0.5, group: 2, merges: true, retained: 0.05}: neighbours are stored as one
//     direction, a length of K and of V for either layer, and positions too unlike to be merged as they are
//
// Example: 32 layers, {from: 0.5, group: 0}: layers 0..15 own their cache, 16..31 that of layer 16: 17 of 32 stored.
// Groups are counted over layers that keep the whole context: a window between two of them is in neither's group. CLA-2 on
// 24 layers of which every other one is a window: 12 windows and 6 of 12 whole caches are stored.

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "kv/compression/compression.h"

namespace kvtide::kv {

constexpr std::int64_t kNeverShares = -1;

struct LayerSharing {
  std::int64_t group = 1;        ///< consecutive layers with one cache; 0: all from the first that shares; 1: none
  PartsPerMillion from = 0;      ///< depth at which sharing begins, of the model's layers
  std::int64_t window = 0;       ///< positions that layers below that depth keep; 0: all
  bool merges = false;           ///< trained models share one cache; here two caches are merged into one
  PartsPerMillion retained = 0;  ///< merges: positions that every layer of a group keeps as they are
  bool operator==(const LayerSharing&) const = default;

  [[nodiscard]] bool is_on() const { return group != 1; }
  /// First layer that may share.
  [[nodiscard]] std::int64_t first_layer(std::int64_t num_layers) const { return num_layers * from / 1'000'000; }
  /// [layer] the layer whose cache it reads; itself where it owns one.
  /// Example: {group: 2}, shapes 0, -1, 0, -1, 0: owners 0, 1, 0, 3, 4.
  /// @param shape_of_layer  layers of equal value store alike and may share; kNeverShares: windows, states, no cache
  [[nodiscard]] std::vector<std::int64_t> owners(const std::vector<std::int64_t>& shape_of_layer) const;
  /// The same of a model whose layers are all alike.
  [[nodiscard]] std::vector<std::int64_t> owners(std::int64_t num_layers) const;
};

/// Whether another layer reads what this one reads. @param owners  as LayerSharing::owners gives them
[[nodiscard]] bool is_shared(const std::vector<std::int64_t>& owners, std::int64_t layer);

/// ceil(num_positions * retained), of every head and layer that merges. Example: 5 % of 1,001: 51.
[[nodiscard]] std::int64_t retained_positions(std::int64_t num_positions, PartsPerMillion retained);

/// What a merged layer stores and reads of its own, one KV head: lengths of K and V of every position (2 B each), and
/// retained positions with their index (4 B).
/// Example: 1,000 positions, head_dim 128, 5 % retained: 4,000 + 50 * (512 + 4) = 29,800 B. @return 0 unless it merges
/// @param is_latent  one vector is K and V: one length, stored once
[[nodiscard]] Bytes merged_bytes(const LayerSharing& sharing, std::int64_t num_positions, std::int64_t head_dim,
                                 bool is_latent);

}  // namespace kvtide::kv
