#include "loss/scan_diagnosis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/random.h"
#include "loss/scan_symptom.h"

namespace kvtide::loss {
namespace {

OutsideScan read(const std::string& text) {
  return read_outside_scan(config::CsvTable::parse(text, "scan.csv"));
}

/// Wrong where place mod `period` is below `width`.
std::string correct_scan(std::int64_t count, std::int64_t step, std::int64_t period, std::int64_t width,
                         const std::string& axis = "prefix_tokens") {
  std::string text = axis + ",correct\n";
  for (std::int64_t i = 0; i < count; ++i) text += fmt::format("{},{}\n", i * step, i * step % period < width ? 0 : 1);
  return text;
}

std::vector<std::string> names(const std::vector<Symptom>& symptoms) {
  std::vector<std::string> result;
  for (const Symptom& one : symptoms) result.push_back(one.name);
  return result;
}

TEST(Diagnose, TenCyclesAreALevelAndThreeOnlyLikely) {
  const ScanDiagnosis ten = diagnose(read(correct_scan(160, 4, 64, 12)));
  EXPECT_EQ(ten.period.verdict, ScanVerdict::level) << ten.period.certainty;
  EXPECT_EQ(ten.period.further_points, 0);
  const ScanDiagnosis three = diagnose(read(correct_scan(52, 4, 64, 12)));  // 208 / 64 = 3.25 cycles
  EXPECT_EQ(three.period.verdict, ScanVerdict::likely) << three.period.certainty;
  EXPECT_EQ(three.period.search.period, 64);
  // Six cycles are 384 tokens; 176 are missing, at step 4.
  EXPECT_EQ(three.period.further_points, 44);
  EXPECT_EQ(three.period.further_step, 4);
  EXPECT_EQ(three.period.block_sizes, (std::vector<std::int64_t>{64, 32, 16}));
}

// At 4 characters a token and step 8, 90 places: dips every 192 characters are told from 195 no better than by 8 / 2 / 2.7 = 1.5 each way.
// 50 tokens, the other side, are 8 characters from 48.
TEST(Diagnose, ABlockSizeIsAMultipleOf16WhereTheScanCannotTell) {
  for (const auto& [characters, first] : {std::pair{192, 48}, {194, 48}, {200, 50}}) {
    std::string text = "prefix_chars,correct,tokens\n";
    for (int at = 0; at < 720; at += 8)
      text += fmt::format("{},{},{}\n", at, at % characters < 32 ? 0 : 1, 1000 + at / 4);
    const ScanDiagnosis found = diagnose(read(text));
    ASSERT_FALSE(found.period.block_sizes.empty()) << characters << found.period.certainty;
    EXPECT_EQ(found.period.block_sizes.front(), first) << found.period.search.period;
  }
}

TEST(Diagnose, FewPlacesAskForMore) {
  const ScanDiagnosis few = diagnose(read(correct_scan(8, 8, 64, 8)));
  EXPECT_EQ(few.period.verdict, ScanVerdict::none);
  // Three cycles of 128 are 384 tokens; 64 were covered: 320 at step 8.
  EXPECT_EQ(few.period.further_points, 40);
  EXPECT_THAT(few.period.certainty, ::testing::HasSubstr("not enough data"));
}

// The same 384 tokens without a fault: 48 places at step 8 cover them, 47 lack one.
TEST(Diagnose, ThreeCyclesOfAUsualBlockAreEnoughToSeeNone) {
  const ScanDiagnosis enough = diagnose(read(correct_scan(48, 8, 64, 0)));
  EXPECT_EQ(enough.period.verdict, ScanVerdict::none);
  EXPECT_EQ(enough.period.further_points, 0);
  EXPECT_EQ(diagnose(read(correct_scan(47, 8, 64, 0))).period.further_points, 1);
}

TEST(Diagnose, DenseEvenScansUseTheRulesForProfiles) {
  const ScanDiagnosis dense = diagnose(read(correct_scan(2000, 1, 96, 20)));
  EXPECT_EQ(dense.period.verdict, ScanVerdict::level);
  EXPECT_EQ(dense.period.search.period, 96);
}

// Always or never at each place, tried twice: variance 0.109 of 0.109, stability 0. Single tries do not measure it, unless all are right
// or all wrong.
TEST(Diagnose, StabilityNeedsRepeatsOfYesAndNo) {
  const std::string once = correct_scan(32, 8, 64, 8);
  const std::string rows = once.substr(once.find('\n') + 1);
  EXPECT_TRUE(std::isnan(diagnose(read(once)).cost.stability));
  EXPECT_NEAR(diagnose(read(once + rows)).cost.stability, 0, 1e-12);
  EXPECT_EQ(diagnose(read(correct_scan(32, 8, 64, 0))).cost.stability, 1);
  EXPECT_EQ(diagnose(read(correct_scan(32, 8, 64, 64))).cost.stability, 1);
  EXPECT_NEAR(diagnose(read("position,score\n0,1\n8,0\n")).cost.stability, 0, 1e-12);
}

// success 1 at 28 of 32 places, 0 at 4: mean 0.875.
TEST(Diagnose, CostIsThatOfPlaces) {
  const ScanDiagnosis found = diagnose(read(correct_scan(32, 8, 64, 8)));
  EXPECT_NEAR(found.cost.mean_success, 0.875, 1e-12);
  EXPECT_NEAR(found.cost.mean_loss, 0.125, 1e-12);
  EXPECT_EQ(found.cost.worst_loss, 1);
  EXPECT_EQ(found.cost.failing_share, 0.125);
  EXPECT_EQ(found.cost.flips, 7);  // the first fails: one change there, two at each of three more
  // 5 % of 32 places are 1.6, all lost.
  EXPECT_NEAR(found.cost.cvar05, 1, 1e-12);
}

// 30 of 200 wrong: deviation sqrt(0.85 * 0.15) = 0.357, 25 places an eighth: 7 * 0.357 / 5 = 0.4999.
TEST(Diagnose, NothingFoundSaysWhatWouldNotBeSeen) {
  ScanSeries series;
  RandomStream random(2, "test.power");
  for (int i = 0; i < 200; ++i) {
    series.at.push_back(5.0 * i);
    series.value.push_back(i < 30 ? 1 : 0);
  }
  EXPECT_NEAR(smallest_visible_dip(series), 0.4999, 1e-4);
  for (std::size_t i = 199; i > 0; --i) std::swap(series.value[i], series.value[random.below(i + 1)]);
  const PeriodFinding coins = find_scan_period(series, "tokens", 1);
  ASSERT_EQ(coins.verdict, ScanVerdict::none);
  EXPECT_NEAR(coins.smallest_dip, 0.4999, 1e-4);
  EXPECT_THAT(coins.certainty, ::testing::HasSubstr("up to a depth of about 0.5"));
  EXPECT_THAT(coins.certainty, ::testing::Not(::testing::HasSubstr("divide the step")));
  // At step 64 all places have one phase of a period of 64; steps below the smallest block size, 16, hide none.
  for (const auto& [step, is_told] : {std::pair{64.0, true}, {16.0, true}, {15.0, false}}) {
    for (std::size_t i = 0; i < 200; ++i) series.at[i] = step * static_cast<double>(i);
    const PeriodFinding coarse = find_scan_period(series, "tokens", 1);
    ASSERT_EQ(coarse.verdict, ScanVerdict::none);
    EXPECT_EQ(coarse.certainty.find("divide the step") != std::string::npos, is_told) << step;
  }
  // With 20 such places an eighth is 2.5: 7 * 0.357 / sqrt(2.5) = 1.58, more than all there is to lose.
  ScanSeries few;
  for (int i = 0; i < 20; ++i) {
    few.at.push_back(5.0 * i);
    few.value.push_back(i == 3 || i == 10 || i == 11 ? 1 : 0);
  }
  EXPECT_THAT(find_scan_period(few, "tokens", 1).certainty, ::testing::HasSubstr("too few or too noisy"));
}

TEST(Diagnose, ControlThatAnswersInvalidatesTheProbe) {
  EXPECT_TRUE(
      diagnose(read("position,correct,control\n0,1,0\n8,1,0\n16,1,0\n24,1,0\n32,1,1\n")).control.is_valid);  // 0.2
  EXPECT_FALSE(
      diagnose(read("position,correct,control\n0,1,0\n8,1,0\n16,1,1\n24,1,0\n32,1,1\n")).control.is_valid);  // 0.4
  EXPECT_TRUE(diagnose(read("position,correct\n0,1\n")).control.is_valid);
}

TEST(Symptoms, AreThoseOfThisScan) {
  using ::testing::Contains;
  using ::testing::IsEmpty;
  using ::testing::Not;
  const OutsideScan dips = read(correct_scan(160, 4, 64, 12));
  const auto of_dips = names(symptoms_of(dips, diagnose(dips)));
  EXPECT_THAT(of_dips, Contains("flips_with_prefix"));
  EXPECT_THAT(of_dips, Contains("dips_at_equal_distances"));
  EXPECT_THAT(of_dips, Contains("good_mean_bad_places"));
  const OutsideScan perfect = read(correct_scan(160, 4, 64, 0));
  EXPECT_EQ(names(symptoms_of(perfect, diagnose(perfect))), std::vector<std::string>{"no_compression_seen"});
  const OutsideScan ruined = read(correct_scan(160, 4, 64, 64));
  EXPECT_EQ(names(symptoms_of(ruined, diagnose(ruined))), std::vector<std::string>{"fails_everywhere"});
  // As a position scan the same dips are no flips of a prefix.
  const OutsideScan moved = read(correct_scan(160, 4, 64, 12, "position"));
  EXPECT_THAT(names(symptoms_of(moved, diagnose(moved))), Not(Contains("flips_with_prefix")));
}

// Nothing lost is harmless only where the answer comes: scores of 0 everywhere, and answers that fail with the full cache too.
TEST(Symptoms, NothingIsHarmlessWhereNothingAnswers) {
  using ::testing::ElementsAre;
  std::string zero = "position,score\n";
  std::string hard = "position,correct,baseline\n";
  std::string fine = "position,correct,baseline\n";
  for (int at = 0; at < 512; at += 8) {
    zero += fmt::format("{},0\n", at);
    hard += fmt::format("{},0,0\n", at);
    fine += fmt::format("{},1,1\n", at);
  }
  const auto of = [](const std::string& text) {
    const OutsideScan scan = read(text);
    return names(symptoms_of(scan, diagnose(scan)));
  };
  EXPECT_THAT(of(zero), ElementsAre("fails_everywhere"));
  EXPECT_EQ(diagnose(read(zero)).cost.worst_loss, 1);
  EXPECT_THAT(of(hard), ElementsAre("fails_without_compression"));
  EXPECT_THAT(of(fine), ElementsAre("no_compression_seen"));
}

std::vector<std::string> names_of(const std::string& text) {
  const OutsideScan scan = read(text);
  return names(symptoms_of(scan, diagnose(scan)));
}

// The full cache fails at the same places: nothing of it is the cache's. The other side: it answers everywhere.
TEST(Symptoms, WhatTheFullCacheDoesAsWellIsNotCompression) {
  for (const bool is_shared : {true, false}) {
    std::string text = "prefix_tokens,correct,baseline\n";
    for (int at = 0; at < 160; at += 2) {
      const int right = (at + 6) % 32 < 6 ? 0 : 1;
      text += fmt::format("{},{},{}\n", at, right, is_shared ? right : 1);
    }
    const auto found = names_of(text);
    const auto has = [&](const char* name) { return std::count(found.begin(), found.end(), name) == 1; };
    EXPECT_EQ(is_shared, has("flips_without_compression"));
    EXPECT_EQ(!is_shared, has("flips_with_prefix"));
    EXPECT_EQ(!is_shared, has("good_mean_bad_places"));
  }
}

// A probability of e^-22 with the full cache and without; of e^-0.1 the other side.
TEST(Symptoms, LogProbabilitiesOfAProbeThatIsTooHard) {
  for (const double baseline : {-22.0, -0.1}) {
    std::string text = "position,logprob,baseline\n";
    for (int at = 0; at < 160; at += 2) text += fmt::format("{},{},{}\n", at, baseline, baseline);
    EXPECT_THAT(names_of(text),
                ::testing::ElementsAre(baseline < -1 ? "fails_without_compression" : "no_compression_seen"));
  }
}

// Wrong at 0, 2 and 4 of 20 places up to 38: the end of a dip of longer blocks as well as a trend; 384 - 40 tokens at step 2 are missing.
TEST(Symptoms, OneStretchAtAnEndMayComeAgain) {
  std::string text = "prefix_tokens,correct\n";
  for (int at = 0; at < 40; at += 2) text += fmt::format("{},{}\n", at, at < 6 ? 0 : 1);
  const OutsideScan scan = read(text);
  const auto symptoms = symptoms_of(scan, diagnose(scan));
  ASSERT_EQ(names(symptoms), std::vector<std::string>{"rises_with_position"});
  EXPECT_THAT(symptoms[0].remedy, ::testing::HasSubstr("scan 172 more points at step 2 first"));
}

// Eleven perfect places are too few to say that nothing was compressed, twelve are not.
TEST(Symptoms, AFewPlacesSayNothing) {
  const auto of = [](std::int64_t places) {
    const OutsideScan scan = read(correct_scan(places, 4, 64, 0));
    return names(symptoms_of(scan, diagnose(scan)));
  };
  EXPECT_THAT(of(1), ::testing::IsEmpty());
  EXPECT_THAT(of(11), ::testing::IsEmpty());
  EXPECT_THAT(of(12), ::testing::ElementsAre("no_compression_seen"));
}

// Coins name no cause on either axis: 200 tries of success 0.85, seeds 1 to 10; one in a hundred scans may be wrong.
TEST(Symptoms, CoinsHaveNoCause) {
  for (const char* axis : {"position", "prefix_tokens"}) {
    int named = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      RandomStream random(seed, "test.coins");
      std::string text = fmt::format("{},correct\n", axis);
      for (int at = 0; at < 1000; at += 5) text += fmt::format("{},{}\n", at, random.uniform() < 0.85 ? 1 : 0);
      const OutsideScan scan = read(text);
      named += names(symptoms_of(scan, diagnose(scan))) == std::vector<std::string>{"not_told_from_noise"} ? 0 : 1;
    }
    EXPECT_LE(named, 1) << axis;
  }
}

// A score that falls from 0.9 to 0.3 with dips of 0.1 every 64: the last third fails, every phase on average does not.
TEST(Symptoms, APeriodIsNotHarmlessWherePlacesFail) {
  std::string text = "position,score\n";
  for (int at = 0; at < 1024; at += 4)
    text += fmt::format("{},{}\n", at, 0.9 - 0.6 * at / 1024 - (at % 64 < 12 ? 0.1 : 0.0));
  const OutsideScan scan = read(text);
  const ScanDiagnosis found = diagnose(scan);
  ASSERT_TRUE(found.period.is_found());
  ASSERT_TRUE(found.danger.intervals.empty());
  const auto seen = names(symptoms_of(scan, found));
  EXPECT_THAT(seen, ::testing::Contains("period_beside_failures"));
  EXPECT_THAT(seen, ::testing::Contains("falls_with_position"));
  EXPECT_THAT(seen, ::testing::Not(::testing::Contains("harmless_period")));
}

TEST(Symptoms, LatencySpikesHaveTheirOwnPeriod) {
  std::string text = "prefix_tokens,correct,latency_ms\n";
  RandomStream random(3, "test.latency");
  for (std::int64_t i = 0; i < 200; ++i) {
    text += fmt::format("{},1,{:.3f}\n", 2 * i, (2 * i % 128 < 4 ? 30.0 : 20.0) + 0.2 * random.normal());
  }
  const OutsideScan scan = read(text);
  const ScanDiagnosis found = diagnose(scan);
  EXPECT_EQ(found.latency.search.period, 128);
  EXPECT_THAT(names(symptoms_of(scan, found)), ::testing::Contains("periodic_latency_spikes"));
}

// Facts at 312..375 and 504..567 are lost, whatever their place within the block: steps at 56 mod 64, no period.
TEST(Diagnose, BlockOfAFactCanDecideWithoutAPeriod) {
  std::string text = "position,logprob\n";
  RandomStream random(5, "test.blocks");
  for (std::int64_t at = 256; at < 696; at += 8) {
    const bool is_lost = (at >= 312 && at < 376) || (at >= 376 && at < 440) || (at >= 568 && at < 632);
    text += fmt::format("{},{:.4f}\n", at, (is_lost ? -10.0 : -0.5) - 0.3 * random.uniform());
  }
  const OutsideScan scan = read(text);
  const ScanDiagnosis found = diagnose(scan);
  EXPECT_FALSE(found.period.is_found()) << found.period.certainty;
  ASSERT_TRUE(found.block_dependence.is_found())
      << found.block_dependence.p << " " << found.block_dependence.edge_index;
  EXPECT_EQ(found.block_dependence.block_size, 64);
  EXPECT_EQ(found.block_dependence.boundary, 56);
  EXPECT_GT(found.block_dependence.variance_share, 0.99);
  EXPECT_THAT(names(symptoms_of(scan, found)), ::testing::Contains("depends_on_block"));
}

/// The rows of one configuration of a scan of a real model, as a user would have written them.
OutsideScan real_scan(const std::string& file, const std::string& mode, const std::string& policy,
                      const std::string& block, const std::string& ratio, const std::string& heads,
                      const std::string& measure) {
  const auto table =
      config::CsvTable::load(std::string(KVTIDE_SOURCE_DIR) + "/../shared/data/real-" + file + "-scan.csv");
  const bool is_prefix = file == "prefix";
  const bool is_logprob = measure == "logprob";
  std::string text =
      std::string(is_prefix ? "prefix_tokens," : "position,") + (is_logprob ? "logprob,baseline\n" : "correct\n");
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "mode") != mode || table.text(row, "policy") != policy || table.text(row, "block") != block ||
        table.text(row, "ratio") != ratio || table.text(row, "head_scope") != heads) {
      continue;
    }
    text += table.text(row, is_prefix ? "prefix_len" : "probe_start") + ",";
    text += is_logprob ? table.text(row, "logp_comp") + "," + table.text(row, "logp_full") : table.text(row, "em_comp");
    text += "\n";
  }
  return read(text);
}

struct RealCase {
  const char* file;
  const char* mode;
  const char* policy;
  const char* block;
  const char* ratio;
  const char* heads;
  double period;  ///< 0: none may be claimed
};

class RealScans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(std::string(KVTIDE_SOURCE_DIR) + "/../shared/data/real-prefix-scan.csv")) {
      GTEST_SKIP() << "the scans of a real model (../shared/data) are not at hand";
    }
  }
};

// The block size of each scan whose loss depends on the phase (R^2 of the phase 0.4 to 0.99 by the scans' own notes).
TEST_F(RealScans, BlockSizeComesOutWhereTheLossFollowsThePhase) {
  for (const RealCase& one : {RealCase{"prefix", "aware", "evict", "64", "0.5", "head", 64},
                              {"prefix", "aware", "evict", "64", "0.75", "head", 64},
                              {"prefix", "aware", "evict", "128", "0.5", "head", 128},
                              {"prefix", "agnostic", "evict", "64", "0.25", "head", 64},
                              {"position", "aware", "evict", "64", "0.5", "head", 64},
                              {"position", "aware", "evict", "64", "0.75", "head", 64},
                              {"position", "aware", "evict", "128", "0.5", "head", 128}}) {
    const ScanDiagnosis found =
        diagnose(real_scan(one.file, one.mode, one.policy, one.block, one.ratio, one.heads, "logprob"));
    EXPECT_TRUE(found.period.is_found()) << one.file << " " << one.mode << " " << one.block << " " << one.ratio << ": "
                                         << found.period.certainty;
    EXPECT_EQ(found.period.search.period, one.period)
        << one.file << " " << one.mode << " " << one.block << " " << one.ratio;
    if (found.period.search.cycles < 6) {
      EXPECT_EQ(found.period.verdict, ScanVerdict::likely);
    }
  }
}

TEST_F(RealScans, NoneIsClaimedWhereThereIsNone) {
  for (const RealCase& one : {RealCase{"prefix", "agnostic", "int4", "64", "0.75", "all", 0},
                              {"prefix", "agnostic", "pool_prerope", "2", "0.5", "all", 0},
                              {"prefix", "agnostic", "pool_postrope", "2", "0.5", "all", 0},
                              {"prefix", "aware", "evict", "128", "0.75", "head", 0},
                              {"position", "agnostic", "int4", "64", "0.75", "all", 0},
                              {"position", "agnostic", "int4", "128", "0.75", "all", 0},
                              {"position", "agnostic", "int2", "64", "0.875", "all", 0},
                              {"position", "agnostic", "evict", "64", "0.25", "head", 0},
                              {"position", "agnostic", "evict", "64", "0.5", "head", 0},
                              {"position", "agnostic", "evict", "128", "0.25", "head", 0},
                              {"position", "aware", "evict", "128", "0.75", "head", 0}}) {
    const ScanDiagnosis found =
        diagnose(real_scan(one.file, one.mode, one.policy, one.block, one.ratio, one.heads, "logprob"));
    EXPECT_FALSE(found.period.is_found()) << one.file << " " << one.mode << " " << one.policy << " " << one.block << " "
                                          << one.ratio << ": " << found.period.certainty;
  }
}

// Query-agnostic position scans: which block, not which phase (R^2 of the block number 0.97 and 0.98 by the scans' own notes).
TEST_F(RealScans, BlockOfTheFactDecidesWhereTheQuestionIsNotSeen) {
  for (const auto& [block, size] : {std::pair{"64", 64.0}, {"128", 128.0}}) {
    const ScanDiagnosis found = diagnose(real_scan("position", "agnostic", "evict", block, "0.25", "head", "logprob"));
    EXPECT_TRUE(found.block_dependence.is_found()) << block << " p " << found.block_dependence.p;
    EXPECT_EQ(found.block_dependence.block_size, size);
    EXPECT_NEAR(found.block_dependence.variance_share, 0.975, 0.01);
  }
  for (const char* policy : {"int4", "int2"}) {
    EXPECT_FALSE(diagnose(real_scan("position", "agnostic", policy, "64",
                                    policy == std::string("int4") ? "0.75" : "0.875", "all", "logprob"))
                     .block_dependence.is_found());
  }
}

// The answer's first digit fails at offsets 61..63 and 0..2 of a block; it stands at 310 + prefix, so prefixes 7..12 mod 64.
TEST_F(RealScans, DangerIsWhereTheBoundaryCutsTheDigits) {
  const ScanDiagnosis found = diagnose(real_scan("prefix", "aware", "evict", "64", "0.5", "head", "logprob"));
  ASSERT_EQ(found.danger.intervals.size(), 1U);
  EXPECT_NEAR(found.danger.intervals[0].begin, 7, 1.01);  // the scan's step is 2
  EXPECT_NEAR(found.danger.intervals[0].end, 14, 1.01);
}

}  // namespace
}  // namespace kvtide::loss
