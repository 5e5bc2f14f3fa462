#include "experiment/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvtide::experiment {
namespace {

using config::Document;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Axis> two_axes() {
  return {{.column = "block_size", .type = AxisType::integer, .labels = {"64", "128"}},
          {.column = "stages", .type = AxisType::text, .labels = {"none", "half"}}};
}

/// (64, none), (64, half), (128, none), (128, half)
std::vector<Run> four_runs() {
  std::vector<Run> runs;
  for (std::int64_t block = 0; block < 2; ++block) {
    for (std::int64_t stages = 0; stages < 2; ++stages) {
      Run run;
      run.index = static_cast<std::int64_t>(runs.size());
      run.axis_values = {block, stages};
      runs.push_back(run);
    }
  }
  return runs;
}

std::vector<std::int64_t> baselines(const std::string& yaml, std::vector<Run> runs, std::string* error = nullptr) {
  const Document document = Document::parse("baseline: " + yaml, "e.yaml");
  find_baselines(document.root().at("baseline"), two_axes(), runs);
  if (error != nullptr) *error = document.errors().empty() ? "" : document.errors().front();
  std::vector<std::int64_t> found;
  for (const Run& run : runs) found.push_back(run.baseline);
  return found;
}

TEST(Baseline, IsTheRunThatDiffersInTheNamedKeysOnly) {
  EXPECT_THAT(baselines("{stages: none}", four_runs()), ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(baselines("{block_size: 128}", four_runs()), ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(baselines("{block_size: 64, stages: none}", four_runs()), ElementsAre(0, 0, 0, 0));
}

TEST(Baseline, WithoutTheKeyNoRunHasOne) {
  EXPECT_THAT(baselines("null", four_runs()), ElementsAre(-1, -1, -1, -1));
}

TEST(Baseline, UnknownKeysAndValuesAreNamedWithWhatIsAllowed) {
  std::string error;
  (void)baselines("{batch: 1}", four_runs(), &error);
  EXPECT_THAT(error, HasSubstr("baseline.batch: is not swept (swept: block_size, stages)"));
  (void)baselines("{stages: quarter}", four_runs(), &error);
  EXPECT_THAT(error, HasSubstr("baseline.stages: expected one of none, half, got quarter"));
}

TEST(Baseline, ARunWhoseBaselineWasLeftOutIsAnError) {
  std::vector<experiment::Run> runs = four_runs();
  runs.erase(runs.begin() + 2);  // (128, none)
  std::string error;
  (void)baselines("{stages: none}", runs, &error);
  EXPECT_THAT(error, HasSubstr("run 00003 has no baseline: no run has these values beside 128"));
}

}  // namespace
}  // namespace kvtide::experiment
