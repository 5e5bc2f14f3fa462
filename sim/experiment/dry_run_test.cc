#include "experiment/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/yaml_value.h"

namespace kvtide::experiment {
namespace {

using testing::HasSubstr;
using testing::Not;

Experiment two_runs() {
  Experiment experiment;
  experiment.name = "a \"quoted\" name";
  experiment.axes.push_back({"batch", AxisType::integer, {"1", "8"}});
  for (std::int64_t index = 0; index < 2; ++index) {
    experiment::Run run;
    run.index = index;
    run.axis_values = {index};
    run.setting.trace.kind = TraceKind::synthetic;
    run.setting.trace.parameters = {{"tokens", 2048}};
    experiment.runs.push_back(run);
  }
  return experiment;
}

// Two runs of 10 s and 3 GiB: two jobs take 10 s and 6 GiB, one job 20 s and 3 GiB.
TEST(DryRun, TimeIsSharedByJobsAndMemoryAddsUp) {
  const auto cost = [](const experiment::Run&) { return RunCost{10, 3.0 * 1024 * 1024 * 1024}; };
  EXPECT_THAT(dry_run_text(two_runs(), {.jobs = 2}, cost), HasSubstr("estimate: 10 s with 2 jobs, 6.00 GiB of memory"));
  EXPECT_THAT(dry_run_text(two_runs(), {.jobs = 1}, cost), HasSubstr("estimate: 20 s with 1 job, 3.00 GiB of memory"));
}

TEST(DryRun, RowsBeyondTheLimitAreCounted) {
  EXPECT_THAT(dry_run_text(two_runs(), {.jobs = 1, .max_rows = 1}), HasSubstr("... and 1 more"));
  EXPECT_THAT(dry_run_text(two_runs(), {.jobs = 1, .max_rows = 2}), Not(HasSubstr("more")));
}

TEST(DryRun, JsonIsOneDocumentWithEveryRun) {
  const std::string text = dry_run_text(two_runs(), {.jobs = 1, .as_json = true});
  const config::Document document = config::Document::parse(text, "dry-run");  // JSON is a subset of what it reads
  EXPECT_EQ(document.root().string("name"), "a \"quoted\" name");
  ASSERT_EQ(document.root().at("runs").items().size(), 2u);
  EXPECT_EQ(document.root().at("runs").items()[1].at("axes").integer("batch"), 8);
  EXPECT_TRUE(document.errors().empty());
}

TEST(DryRun, PrefixScanAndLargerBlocksCostMore) {
  experiment::Run run = two_runs().runs[0];
  run.setting.measure.prefix_scan = false;
  const double without = estimate_cost(run).seconds;
  run.setting.measure.prefix_scan = true;
  const double with = estimate_cost(run).seconds;
  run.setting.compression.block_size = 256;
  EXPECT_GT(with, without);
  EXPECT_GT(estimate_cost(run).seconds, with);
}

}  // namespace
}  // namespace kvtide::experiment
