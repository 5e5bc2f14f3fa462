#include "kv/partition.h"

#include <algorithm>

#include "base/error.h"
#include "kv/compression/compression.h"

namespace kvtide::kv {

std::vector<Block> partition_blocks(const Compression& setting, std::int64_t num_positions) {
  KVTIDE_ASSERT(setting.block_size >= 1, "block_size is checked before");
  std::vector<Block> blocks;
  const std::int64_t window_begin = num_positions - std::min(setting.window, num_positions);
  std::int64_t begin = 0;
  while (begin < num_positions) {
    const std::int64_t grid_end =
        ((begin + setting.grid_offset) / setting.block_size + 1) * setting.block_size - setting.grid_offset;
    const std::int64_t end = std::min(grid_end, num_positions);
    const bool is_filling = grid_end > num_positions;
    blocks.push_back(
        {begin, end, begin < setting.sinks || end > window_begin || (is_filling && setting.protects_filling_block)});
    begin = end;
  }
  return blocks;
}

std::int64_t kept_count(std::int64_t num, std::int64_t keep_ppm) {
  constexpr std::int64_t kMillion = 1'000'000;
  const auto removed = static_cast<std::int64_t>(static_cast<__int128>(num) * (kMillion - keep_ppm) / kMillion);
  return num - removed;
}

std::int64_t keep_for_count(std::int64_t num, std::int64_t kept) {
  KVTIDE_ASSERT(num >= 1 && num < 1'000'000 && kept >= 0 && kept <= num, "a part of fewer than a million");
  return 1'000'000 - ((num - kept) * 1'000'000 + num - 1) / num;
}

}  // namespace kvtide::kv
