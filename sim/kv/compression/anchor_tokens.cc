#include "kv/compression/anchor_tokens.h"

#include <algorithm>

namespace kvtide::kv {

bool keeps_anchor_tokens(const Compression& setting) {
  return setting.anchor_scope == AnchorScope::token && !setting.anchors.empty();
}

std::vector<std::int64_t> set_anchors_aside(const Compression& setting, WorkingHead& head) {
  std::vector<std::int64_t> anchors;
  if (!keeps_anchor_tokens(setting)) return anchors;
  for (WorkingBlock& block : head.blocks) {
    if (block.block.is_protected) continue;
    const auto is_anchor = [&](std::int64_t position) { return setting.anchors.contains(position); };
    std::ranges::copy_if(block.positions, std::back_inserter(anchors), is_anchor);
    std::erase_if(block.positions, is_anchor);
    block.entry_size.assign(block.positions.size(), 1);
  }
  // Overlapping windows hold an anchor twice.
  std::ranges::sort(anchors);
  anchors.erase(std::unique(anchors.begin(), anchors.end()), anchors.end());
  return anchors;
}

void restore_anchors(std::vector<std::int64_t> anchors, WorkingHead& head) {
  if (anchors.empty()) return;
  WorkingBlock& exact = head.blocks.emplace_back();
  exact.block = {anchors.front(), anchors.back() + 1, true, anchors.back() + 1};
  exact.entry_size.assign(anchors.size(), 1);
  exact.positions = std::move(anchors);
}

PartsPerMillion keep_beside_anchors(PartsPerMillion keep, std::int64_t num_positions, std::int64_t num_anchors) {
  if (num_anchors == 0) return keep;
  if (num_anchors >= num_positions) return 1;
  const auto kept = static_cast<__int128>(keep) * num_positions - static_cast<__int128>(num_anchors) * 1'000'000;
  return std::max<PartsPerMillion>(1, static_cast<PartsPerMillion>(kept / (num_positions - num_anchors)));
}

}  // namespace kvtide::kv
