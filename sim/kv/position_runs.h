#pragma once
// Sets of positions as runs: what a policy that only evicts takes from a head, in a few numbers instead of a mask.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvtide::kv {

/// Positions begin..end-1, at least one.
struct PositionRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const PositionRun&) const = default;
};

/// Ascending, disjoint.
using PositionRuns = std::vector<PositionRun>;

[[nodiscard]] inline std::int64_t num_positions_of(const PositionRuns& runs) {
  std::int64_t sum = 0;
  for (const PositionRun& run : runs) sum += run.end - run.begin;
  return sum;
}

[[nodiscard]] inline bool contains(const PositionRuns& runs, std::int64_t position) {
  const auto after = std::ranges::upper_bound(runs, position, {}, &PositionRun::begin);
  return after != runs.begin() && position < std::prev(after)->end;
}

/// Calls visit(begin, end, is_added) for every stretch that only one of the two sets holds, ascending.
/// Example: from {[4, 8)} to {[3, 7)} gives (3, 4, true) and (7, 8, false): a grid that moved by one token.
template <typename Visit>
void for_each_difference(const PositionRuns& from, const PositionRuns& to, Visit visit) {
  // The boundaries of either set, two a run; an odd count passed means inside.
  const auto boundary = [](const PositionRuns& runs, std::size_t index) {
    if (index >= 2 * runs.size()) return std::numeric_limits<std::int64_t>::max();
    return index % 2 == 0 ? runs[index / 2].begin : runs[index / 2].end;
  };
  std::size_t from_passed = 0;
  std::size_t to_passed = 0;
  std::int64_t position = 0;
  while (from_passed < 2 * from.size() || to_passed < 2 * to.size()) {
    const std::int64_t next_from = boundary(from, from_passed);
    const std::int64_t next_to = boundary(to, to_passed);
    const std::int64_t next = std::min(next_from, next_to);
    const bool is_in_to = to_passed % 2 == 1;
    if (next > position && is_in_to != (from_passed % 2 == 1)) visit(position, next, is_in_to);
    position = next;
    if (next_from == next) ++from_passed;
    if (next_to == next) ++to_passed;
  }
}

}  // namespace kvtide::kv
