#pragma once
// The exact prefix experiment: the content stays, the block grid moves as if `shift` tokens had been put in front of
// it. Profiles are indexed by content position, so that a difference between two shifts is what a longer prefix
// changes.
//
// Example: blocks of 128, every other one evicted, all positions equally read. A shift of 2 flips the two positions at
// each edge: PS(2) = 2 / 128 = 1.56 % in the mean, 1 at the worst position.

#include <cstdint>
#include <functional>
#include <vector>

#include "kv/head_cache.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"
#include "loss/eviction_loss.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {

struct PrefixScanSettings {
  std::int64_t max_shift = 0;        ///< shifts 0, step, 2 step, ... <= max_shift; usually twice the block size
  std::int64_t step = 1;             ///< >= 1
  std::vector<std::int64_t> shifts;  ///< ascending from 0: instead of these, where given; all <= max_shift
  /// Compression depends on the shift modulo this only (a fixed grid: block_size); 0: unknown.
  std::int64_t repeats_after = 0;
  bool with_output_error = true;             ///< the dearer half
  std::vector<std::int64_t> kept_positions;  ///< whose kept share is reported (a fact's digits); empty: every position
  HeadReduction reduction = HeadReduction::reader;
};

struct PrefixScan {
  std::vector<std::int64_t> shift;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;             ///< KV heads of a layer (of the layer with most)
  std::vector<double> lost_mass;          ///< [shift, layer, kv_head] lost attention, summed over positions
  std::vector<double> output_error;       ///< [shift, layer, kv_head] mean E; NaN without with_output_error
  std::vector<double> kept_share;         ///< [shift, layer, kv_head] of kept_positions, held by some entry
  std::vector<double> sensitivity;        ///< [shift] PS = mean over positions of |L_shift(j) - L_0(j)|
  std::vector<double> worst_sensitivity;  ///< [shift] the largest of these differences
  double mean_loss = 0;                   ///< mean over positions of L_0(j)
  /// PS in units of what drawing another set of the same size at random would change: PS / (2 m (1 - m)), m = mean_loss.
  /// 1: the longer prefix is as bad as forgetting which blocks mattered. NaN where m is 0 or 1.
  /// Example: every other block of 128 gone, m = 1/2; two tokens change 1.56 % of positions: 0.0156 / 0.5 = 0.031.
  [[nodiscard]] double relative_sensitivity(std::size_t shift_index) const;
  /// Flat index into the three arrays.
  [[nodiscard]] std::size_t index(std::int64_t shift_index, std::int64_t layer, std::int64_t head) const {
    return static_cast<std::size_t>((shift_index * num_layers + layer) * num_heads + head);
  }
};

/// Compresses one layer with the grid moved by `shift` (grid_offset = shift mod block_size).
using CompressAtShift = std::function<kv::LayerCache(std::int64_t layer, std::int64_t shift)>;

/// @throws InputError  max_shift outside 0..2^24, step below 1, more than 1,000,000 shifts, or a kept position outside
/// the trace
[[nodiscard]] PrefixScan scan_prefix(const AttentionReference& reference, const CompressAtShift& compress,
                                     const PrefixScanSettings& settings);

/// What a policy that only evicts takes from each KV head of one layer with the grid moved by `shift`
/// (kv::evicted_runs). @return [kv_head], positions of the trace
using EvictAtShift = std::function<std::vector<kv::PositionRuns>(std::int64_t layer, std::int64_t shift)>;

/// The same figures as scan_prefix(), to rounding, at about a hundredth of its time (eviction_loss.h says how).
/// @throws InputError  as scan_prefix()
[[nodiscard]] PrefixScan scan_prefix_of_eviction(const AttentionReference& reference, const EvictAtShift& evict,
                                                 const PrefixScanSettings& settings);

/// The same with heads that outlive the scan (eviction_losses()): their sums over positions are made once for all
/// settings. output_error is NaN where they do not follow it.
[[nodiscard]] PrefixScan scan_prefix_of_eviction(const AttentionReference& reference, std::vector<EvictionLoss>& heads,
                                                 const EvictAtShift& evict, const PrefixScanSettings& settings);

}  // namespace kvtide::loss
