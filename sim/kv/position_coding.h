#pragma once
// Where a kept key is placed for RoPE when that is not its own position ("decoupling" cache and position).
//
// original    at its own position
// contiguous  kept keys close ranks before the newest position: no gaps (re-rotation, as FINCH does)
// smooth      keys of compressible blocks share one angle per `width` positions, that of the group's centre
//
// RoPE turns a key by angle p w_i, so moving it from p to s is one more turn by (s - p) w_i.
// Example: 10 positions, 2..4 evicted. contiguous: kept 0, 1, 5..9 become 3, 4, 5..9.
// Example: smooth, width 4: positions 4, 5, 6, 7 are all placed at 5.5.

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvtide::kv {

enum class PositionCoding : std::uint8_t { original, contiguous, smooth };
[[nodiscard]] std::string_view to_string(PositionCoding coding);

/// Turns of kept entries, in positions; 0: untouched.
/// @param centre         [entry] mean original position
/// @param is_free        [entry] 1: from a compressible block
/// @param num_positions  original length: the next token's position
/// @param width          smooth: positions in a group, >= 1
[[nodiscard]] std::vector<double> position_turns(PositionCoding coding, const std::vector<double>& centre,
                                                 const std::vector<std::uint8_t>& is_free, std::int64_t num_positions,
                                                 std::int64_t width);

}  // namespace kvtide::kv
