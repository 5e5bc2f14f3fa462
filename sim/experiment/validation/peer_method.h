#pragma once
// A peer's method, as its class and parameters name it, in our own words: a composition of scorer, selection and budget.
// Built from the method's definition alone; what it kept is never read here.
//
// Example: {"class": "ChunkKVPress", "press": {"class": "SnapKVPress", "window_size": 64}, "chunk_length": 20} ->
// scorer snapkv, blocks of 20 with the mean as score, shared heads.

#include <string>

#include "kv/compression/compression.h"
#include "kv/compression/merged_values.h"

namespace kvtide::experiment {

enum class PeerKind : std::uint8_t {
  unknown,
  evict,          ///< setting's evict stage
  pyramid,        ///< the same, the budget by layer
  lazy_layers,    ///< lazy layers stream, others keep everything
  key_channels,   ///< ThinK
  merged_values,  ///< the setting's choice, and values folded into what is kept
};

struct PeerMethod {
  PeerKind kind = PeerKind::unknown;
  kv::Compression setting;     ///< one evict stage; its keep is set per ratio by at_ratio()
  bool is_stochastic = false;  ///< draws: only its selection from given scores can be compared
  bool blends_drawn = false;   ///< stochastic part times the share removed, plus a part that is not (Compactor)
  double pyramid_beta = 20;
  std::int64_t window = 64;
  kv::MergeRule merge;
};

/// @param parameters  JSON text with "class"; nested classes under "press"
/// @return kind unknown for what we cannot identify; never throws for that
[[nodiscard]] PeerMethod peer_method(const std::string& name, const std::string& parameters);

/// The method's evict setting for a share removed: the peer keeps int(n * (1 - removed)) positions or blocks, at least
/// one, truncated where we round up.
[[nodiscard]] kv::Compression at_ratio(const PeerMethod& method, double removed, std::int64_t num_positions,
                                       std::int64_t layer, std::int64_t num_layers);

}  // namespace kvtide::experiment
