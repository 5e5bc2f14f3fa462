#pragma once
// A layer while its stages are applied: per KV head the surviving entries of each block, and how K and V are stored.
// Only the stages and compress_layer() see it.

#include <cstdint>
#include <optional>
#include <vector>

#include "kv/compression/compression.h"
#include "kv/partition.h"

namespace kvtide::kv {

/// fp16 rows as they were recorded.
[[nodiscard]] inline StoredForm recorded_form(std::int64_t head_dim) {
  return {StoredForm::Kind::fp16, 16, static_cast<std::int32_t>(head_dim)};
}

/// K or V of one block once a stage has touched its numbers or its form.
struct StoredTensor {
  StoredForm form;
  Bytes metadata = 0;
  std::int64_t num_encoded = 0;      ///< leading entries in `form`; later ones are still fp16 (residual window)
  RowMatrix values;                  ///< [entry, form.columns]; empty without recorded numbers
  RowMatrix basis;                   ///< [rank, head_dim] of a low-rank form, else empty
  RopeState rope = RopeState::post;  ///< pre: key rows are turned to their positions as they are read
};

struct WorkingBlock {
  Block block;
  std::vector<std::int64_t> positions;   ///< surviving original positions, ascending
  std::vector<std::int32_t> entry_size;  ///< positions per entry, consecutive in `positions`
  RopeState pooled_rope = RopeState::post;
  PoolWeight pool_weight = PoolWeight::uniform;
  bool is_mass_corrected = false;
  std::optional<StoredTensor> k;  ///< absent: fp16 rows as recorded
  std::optional<StoredTensor> v;

  [[nodiscard]] std::int64_t num_entries() const { return static_cast<std::int64_t>(entry_size.size()); }
  [[nodiscard]] bool is_free() const { return !block.is_protected && !positions.empty(); }
};

struct WorkingHead {
  std::vector<WorkingBlock> blocks;
  const HeadTensors* tensors = nullptr;  ///< null: decisions and bytes only
};

struct WorkingLayer {
  std::int64_t num_positions = 0;
  std::int64_t head_dim = 0;
  std::vector<WorkingHead> heads;
  const LayerScores* scores = nullptr;
};

/// The block's K (or V) rows as they would be stored now: the mean over each entry's positions.
/// @param rope  pre: keys before rotation
[[nodiscard]] RowMatrix entry_rows(const WorkingBlock& block, const HeadTensors& tensors, bool is_key,
                                   RopeState rope = RopeState::post);

/// Rounds every element to the nearest fp16 value.
void round_to_half(RowMatrix& values);

}  // namespace kvtide::kv
