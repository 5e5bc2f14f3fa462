#include "gpu/chrome_trace.h"

#include <gtest/gtest.h>

#include <sstream>

#include "config/yaml_value.h"

namespace kvtide::gpu {
namespace {

// JSON is YAML: the same text is read back by the reader of configuration files.
TEST(ChromeTrace, EventsHaveTheFieldsOfTheFormat) {
  std::ostringstream out;
  ChromeTrace trace(out);
  trace.name_process(0, "stage 0");
  trace.name_thread(0, 1, "a \"quoted\" stream");
  trace.add({.name = "attention",
             .category = "kernel",
             .start = Picoseconds{12'500'001},
             .duration = Picoseconds{3'250'000},
             .process = 0,
             .thread = 1,
             .arguments = {{"slack_us", 0.5}}});
  trace.close();
  const config::Document document = config::Document::parse(out.str(), "trace");
  const std::vector<config::Value> events = document.root().at("traceEvents").items();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].string("ph"), "M");
  EXPECT_EQ(events[1].at("args").string("name"), "a \"quoted\" stream");
  EXPECT_EQ(events[2].string("ph"), "X");
  EXPECT_EQ(events[2].string("name"), "attention");
  EXPECT_EQ(events[2].at("ts").text(), "12.500001");
  EXPECT_EQ(events[2].at("dur").text(), "3.250000");
  EXPECT_EQ(events[2].at("tid").text(), "1");
  EXPECT_EQ(events[2].at("args").at("slack_us").text(), "0.5");
}

// Two events fit, the third is counted only.
TEST(ChromeTrace, BeyondTheCapEventsAreCountedAndLeftOut) {
  std::ostringstream out;
  ChromeTrace trace(out, 2);
  for (int event = 0; event < 3; ++event) trace.add({.name = "k", .category = "kernel"});
  trace.close();
  EXPECT_EQ(trace.num_written(), 2);
  EXPECT_EQ(trace.num_left_out(), 1);
  const config::Document document = config::Document::parse(out.str(), "trace");
  EXPECT_EQ(document.root().at("traceEvents").items().size(), 2U);
  EXPECT_EQ(document.root().at("otherData").at("events_left_out").text(), "1");
}

TEST(ChromeTrace, AnEmptyOneIsStillADocument) {
  std::ostringstream out;
  ChromeTrace trace(out);
  trace.close();
  EXPECT_TRUE(config::Document::parse(out.str(), "trace").root().at("traceEvents").items().empty());
}

}  // namespace
}  // namespace kvtide::gpu
