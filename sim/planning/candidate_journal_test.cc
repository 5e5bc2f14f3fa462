#include "planning/candidate_journal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace kvtide::planning {
namespace {

Candidate judged() {
  Candidate one;
  one.is_feasible = true;
  one.needed = 3;
  one.replicas = 4;
  one.usd_per_hour = 0.1 + 0.2;  // no short decimal
  one.experience.tpot.p99 = std::nan("");
  one.experience.latency.p50 = 1e-300;
  one.reason = "needed 2 GiB\nshort by 1";
  return one;
}

TEST(Journal, EveryFigureComesBackExactly) {
  Candidate back;
  ASSERT_TRUE(read_journal_text(journal_text(judged()), back));
  EXPECT_TRUE(back.is_feasible);
  EXPECT_EQ(back.needed, 3);
  EXPECT_EQ(back.usd_per_hour, 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(back.experience.tpot.p99));
  EXPECT_EQ(back.experience.latency.p50, 1e-300);
  EXPECT_EQ(back.reason, "needed 2 GiB short by 1");
}

TEST(Journal, ALineCutAnywhereIsNone) {
  const std::string text = journal_text(judged());
  for (std::size_t length = 0; length < text.size(); ++length) {
    Candidate untouched;
    EXPECT_FALSE(read_journal_text(text.substr(0, length), untouched)) << length;
    EXPECT_EQ(untouched.needed, 0);
  }
}

TEST(Journal, RestoresByKeyAndOnlyWhenAsked) {
  const std::string path = (std::filesystem::temp_directory_path() / "kvtide_journal_test").string();
  CandidateJournal(path, false).add(7, judged());
  {
    CandidateJournal again(path, true);
    Candidate back;
    EXPECT_FALSE(again.restore(8, back));
    ASSERT_TRUE(again.restore(7, back));
    EXPECT_EQ(back.replicas, 4);
  }
  EXPECT_EQ(CandidateJournal(path, false).size(), 0U);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvtide::planning
