#include "loss/outside_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::loss {
namespace {

OutsideScan read(const std::string& text) {
  return read_outside_scan(config::CsvTable::parse(text, "scan.csv"));
}

std::string error_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(OutsideScan, YesOrNoMayBeTrueOrFalse) {
  const OutsideScan scan = read("position,correct,baseline\n0,True,TRUE\n8,False,true\n16,false,1\n");
  EXPECT_EQ(scan.points[0].success, 1);
  EXPECT_EQ(scan.points[1].loss, 1);
  EXPECT_EQ(scan.points[2].success, 0);
  EXPECT_EQ(scan.points[2].baseline, 1);
  EXPECT_THROW((void)read("position,score\n0,True\n"), InputError);
}

TEST(OutsideScan, RepeatsOfAPlaceAreAveragedAndPlacesSorted) {
  const OutsideScan scan = read("prefix_tokens,correct,repeat\n2,1,0\n0,1,0\n0,0,1\n2,1,1\n2,0,2\n2,1,3\n");
  ASSERT_EQ(scan.points.size(), 2U);
  EXPECT_EQ(scan.axis, ScanAxis::prefix_tokens);
  EXPECT_EQ(scan.points[0].at, 0);
  EXPECT_EQ(scan.points[0].success, 0.5);
  EXPECT_EQ(scan.points[0].loss, 0.5);
  EXPECT_EQ(scan.points[1].success, 0.75);
  EXPECT_EQ(scan.points[1].repeats, 4);
  EXPECT_EQ(scan.rows, 6);
  EXPECT_EQ(scan.repeats, 2);
}

// logprob -2.5 against -0.5: two nats lost, e^-2 of the probability left; better than the baseline counts as full success.
TEST(OutsideScan, LogprobLosesNatsAgainstItsBaseline) {
  const OutsideScan scan = read("position,logprob,baseline\n8,-2.5,-0.5\n16,-0.2,-0.5\n");
  EXPECT_TRUE(scan.has_baseline);
  EXPECT_DOUBLE_EQ(scan.points[0].loss, 2);
  EXPECT_DOUBLE_EQ(scan.points[0].success, std::exp(-2.0));
  EXPECT_DOUBLE_EQ(scan.points[1].loss, -0.3);
  EXPECT_EQ(scan.points[1].success, 1);
}

// -2 against -1.98 loses 0.02, -2 against nothing would lose 2: every other row without a baseline is no loss of 2 at every other place.
TEST(OutsideScan, RowsWithoutTheBaselineThatOthersHaveAreLeftOut) {
  const OutsideScan scan = read("position,logprob,baseline\n8,-2,-1.98\n16,-2,\n24,-2,-1.98\n32,-2,\n");
  EXPECT_EQ(scan.rows, 2);
  EXPECT_EQ(scan.rows_left_out, 2);
  ASSERT_EQ(scan.points.size(), 2U);
  EXPECT_NEAR(scan.points[1].loss, 0.02, 1e-12);
  EXPECT_EQ(scan.points[1].at, 24);
  // The other side: no row has one.
  const OutsideScan none = read("position,logprob,baseline\n8,-2,\n16,-2,\n");
  EXPECT_FALSE(none.has_baseline);
  EXPECT_EQ(none.rows_left_out, 0);
  EXPECT_EQ(none.points[0].loss, 2);
}

// Success and loss have one reference: a full score of 1, or the best one where some exceed it.
TEST(OutsideScan, ScoresAboveOneAreMeasuredAgainstTheBest) {
  const OutsideScan within = read("position,score\n0,0.25\n8,0.5\n");
  EXPECT_EQ(within.points[0].success, 0.25);
  EXPECT_EQ(within.points[0].loss, 0.75);
  EXPECT_EQ(read("position,score\n0,0\n8,0\n").points[0].loss, 1);
  const OutsideScan above = read("position,score\n0,20\n8,80\n");
  EXPECT_EQ(above.points[0].success, 0.25);
  EXPECT_EQ(above.points[0].loss, 60);
}

// 37 characters a token line: tokens = 10 + characters / 4.
TEST(OutsideScan, TokensPerCharacterAreTheSlope) {
  const OutsideScan scan = read("prefix_chars,correct,tokens\n0,1,10\n8,0,12\n16,1,14\n20,1,15\n");
  EXPECT_NEAR(scan.tokens_per_unit(), 0.25, 1e-12);
  EXPECT_EQ(unit_of(scan.axis), "characters");
  EXPECT_TRUE(std::isnan(read("prefix_chars,correct\n0,1\n8,0\n").tokens_per_unit()));
  EXPECT_EQ(read("prefix_tokens,correct\n0,1\n8,0\n").tokens_per_unit(), 1);
}

TEST(OutsideScan, ProbesAreToldApart) {
  const OutsideScan scan = read("position,correct,probe_type\n0,1,fact\n8,0,fact\n0,1,chain\n8,1,chain\n");
  ASSERT_EQ(scan.probes.size(), 2U);
  EXPECT_EQ(scan.probes[0].type, "fact");
  EXPECT_EQ(scan.probes[0].mean_success, 0.5);
  EXPECT_EQ(scan.probes[0].worst_success, 0);
  EXPECT_EQ(scan.probes[1].worst_success, 1);
  EXPECT_EQ(scan.points[1].success, 0.5);
}

TEST(OutsideScan, ControlsAndLatenciesMayBeMissingInPlaces) {
  const OutsideScan scan = read("position,correct,control,latency_ms\n0,1,0,\n8,1,,12\n16,0,1,13\n");
  EXPECT_TRUE(std::isnan(scan.points[1].control));
  EXPECT_EQ(scan.points[2].control, 1);
  EXPECT_EQ(scan.latencies().at, (std::vector<double>{8, 16}));
}

TEST(OutsideScan, EveryBadInputNamesFileLineAndColumn) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("place,correct\n1,1\n"),
              HasSubstr("scan.csv:1: no column for the place; expected one of position, prefix_tokens"));
  EXPECT_THAT(error_of("position,prefix_tokens,correct\n1,1,1\n"), HasSubstr("both say the place"));
  EXPECT_THAT(error_of("position,right\n1,1\n"), HasSubstr("correct, score, logprob"));
  EXPECT_THAT(error_of("position,correct\n"), HasSubstr("no rows"));
  EXPECT_THAT(error_of("position,correct\n1,1\n2,yes\n"),
              HasSubstr("scan.csv:3: correct: expected a number in 0..1, got \"yes\""));
  EXPECT_THAT(error_of("position,correct\n1,2\n"), HasSubstr("scan.csv:2: correct"));
  EXPECT_THAT(error_of("position,logprob\n1,0.5\n"), HasSubstr("scan.csv:2: logprob"));
  EXPECT_THAT(error_of("position,correct\n-1,1\n"), HasSubstr("scan.csv:2: position"));
  EXPECT_THAT(error_of("position,correct\nnan,1\n"), HasSubstr("scan.csv:2: position"));
  EXPECT_THAT(error_of("position,score\n1,inf\n"), HasSubstr("scan.csv:2: score"));
  EXPECT_THAT(error_of("position,correct,baseline\n1,1,x\n"), HasSubstr("scan.csv:2: baseline"));
}

}  // namespace
}  // namespace kvtide::loss
