#include "kv/position_runs.h"

#include <gtest/gtest.h>

#include <tuple>

namespace kvtide::kv {
namespace {

using Stretches = std::vector<std::tuple<std::int64_t, std::int64_t, bool>>;

Stretches differences(const PositionRuns& from, const PositionRuns& to) {
  Stretches found;
  for_each_difference(
      from, to, [&](std::int64_t begin, std::int64_t end, bool is_added) { found.emplace_back(begin, end, is_added); });
  return found;
}

TEST(PositionRuns, HoldTheirFirstPositionButNotTheirEnd) {
  const PositionRuns runs = {{2, 4}, {6, 7}};
  EXPECT_EQ(num_positions_of(runs), 3);
  std::vector<std::int64_t> held;
  for (std::int64_t position = 0; position < 9; ++position) {
    if (contains(runs, position)) held.push_back(position);
  }
  EXPECT_EQ(held, (std::vector<std::int64_t>{2, 3, 6}));
  EXPECT_FALSE(contains({}, 0));
}

TEST(PositionRuns, MovedRunDiffersAtItsEndsOnly) {
  EXPECT_EQ(differences({{4, 8}}, {{3, 7}}), (Stretches{{3, 4, true}, {7, 8, false}}));
}

TEST(PositionRuns, EqualSetsDoNotDifferHoweverTheyAreCut) {
  EXPECT_EQ(differences({{4, 8}, {10, 12}}, {{4, 8}, {10, 12}}), Stretches{});
  EXPECT_EQ(differences({{4, 6}, {6, 8}}, {{4, 8}}), Stretches{});
  EXPECT_EQ(differences({}, {}), Stretches{});
}

TEST(PositionRuns, RunThatAppearsOrGoesDiffersWhole) {
  EXPECT_EQ(differences({}, {{0, 3}}), (Stretches{{0, 3, true}}));
  EXPECT_EQ(differences({{0, 3}, {5, 9}}, {{5, 9}}), (Stretches{{0, 3, false}}));
  // One run split by a gap, and both ends moved outwards: [3,4) and [8,9) come, [5,6) goes.
  EXPECT_EQ(differences({{4, 8}}, {{3, 5}, {6, 9}}), (Stretches{{3, 4, true}, {5, 6, false}, {8, 9, true}}));
}

}  // namespace
}  // namespace kvtide::kv
