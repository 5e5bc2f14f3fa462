#pragma once
// Places of a text that matter to a policy (anchors, block boundaries), and how they carry over to a longer context: the
// text is repeated.
//
// Example: positions {10, 40} of a text of 100 tokens: in 250 tokens they are 10, 40, 110, 140, 210 and 240.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvtide::kv {

struct PositionPattern {
  std::vector<std::int64_t> positions;  ///< ascending, in 0..length-1
  std::int64_t length = 0;              ///< tokens of the text, repeated after; 0: never

  [[nodiscard]] bool empty() const { return positions.empty(); }
  [[nodiscard]] bool contains(std::int64_t position) const {
    return position >= 0 && std::ranges::binary_search(positions, in_text(position));
  }
  /// The largest place in first..last, or `otherwise`.
  [[nodiscard]] std::int64_t last_within(std::int64_t first, std::int64_t last, std::int64_t otherwise) const {
    for (std::int64_t position = last; position >= first; --position) {
      if (contains(position)) return position;
    }
    return otherwise;
  }
  /// Number of places in begin..end-1.
  [[nodiscard]] std::int64_t count_within(std::int64_t begin, std::int64_t end) const {
    return count_below(end) - count_below(begin);
  }
  bool operator==(const PositionPattern&) const = default;

 private:
  [[nodiscard]] std::int64_t in_text(std::int64_t position) const { return length > 0 ? position % length : position; }
  [[nodiscard]] std::int64_t count_below(std::int64_t end) const {
    if (end <= 0) return 0;
    const std::int64_t repeats = length > 0 ? end / length : 0;
    const auto rest = std::ranges::lower_bound(positions, end - repeats * length);
    return repeats * static_cast<std::int64_t>(positions.size()) + (rest - positions.begin());
  }
};

}  // namespace kvtide::kv
