#pragma once
// Anchors that are kept token by token: they stay exact wherever their block goes, and count inside the budget.
//
// Example: keep half of 1,000 positions, 100 of them anchors in free blocks: the other 900 keep (500 - 100) / 900 =
// 0.444 (the equal-memory rule: (r - a) / (1 - a) with r = 0.5, a = 0.1).

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

/// Whether anchors stay token by token, and not with the block that holds them, which is then protected.
[[nodiscard]] bool keeps_anchor_tokens(const Compression& setting);

/// Takes the anchors out of the free blocks of a head. @return their positions, ascending; empty with anchor_scope block
[[nodiscard]] std::vector<std::int64_t> set_anchors_aside(const Compression& setting, WorkingHead& head);

/// Puts them back as exact entries.
void restore_anchors(std::vector<std::int64_t> anchors, WorkingHead& head);

/// What the rest may keep when `num_anchors` of `num_positions` are kept beside it; at least one millionth.
[[nodiscard]] PartsPerMillion keep_beside_anchors(PartsPerMillion keep, std::int64_t num_positions,
                                                  std::int64_t num_anchors);

}  // namespace kvtide::kv
