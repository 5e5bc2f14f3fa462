#include "planning/plan_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/whole_file.h"

namespace kvtide::planning {
namespace {

/// "| `plan.peak` | number, 1..1000 | 1 |" of each row of docs/plan.md; the meaning behind it is for people.
std::set<std::string> rows_of_page() {
  std::istringstream page(read_whole_file(KVTIDE_SOURCE_DIR "/docs/plan.md", 1 << 20, "page"));
  std::set<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    std::size_t end = 0;
    for (int column = 0; column < 3; ++column) end = line.find(" |", end) + 1;
    EXPECT_GT(line.size(), end + 4) << line << ": no meaning";
    rows.insert(line.substr(0, end + 1));
  }
  return rows;
}

TEST(PlanKeys, ThePageHasEveryKeyAsTheReaderTakesItAndNoOther) {
  std::set<std::string> asked;
  for (const config::AskedKey& key : plan_keys()) asked.insert(table_cells(key));
  EXPECT_EQ(rows_of_page(), asked);
}

TEST(PlanKeys, BothGoalsAndEveryObjectiveAreAmongThem) {
  const std::vector<config::AskedKey> keys = plan_keys();
  for (const char* path : {"plan.minimize", "plan.maximize", "plan.slo.latency_p99", "plan.calibration.step_gap"})
    EXPECT_TRUE(std::ranges::any_of(keys, [&](const auto& key) { return key.path == path; })) << path;
}

}  // namespace
}  // namespace kvtide::planning
