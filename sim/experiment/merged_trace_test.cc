#include "experiment/merged_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvtide::experiment {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 30 layers, merged in twos from the middle: 15 and 16, 17 and 18, 19 and 20, ...
constexpr kv::LayerSharing kPairs{.group = 2, .from = 500'000, .window = 0, .merges = true, .retained = 0};

attention::TraceInfo recorded(std::vector<std::int64_t> layers) {
  attention::TraceInfo info;
  info.num_model_layers = 30;
  info.layers = std::move(layers);
  return info;
}

TEST(MergedTrace, NeighboursMustBeRecorded) {
  EXPECT_THAT(unmeasurable_reason(kPairs, recorded({9, 17, 18})), IsEmpty());
  EXPECT_THAT(unmeasurable_reason(kPairs, recorded({9, 18})),
              HasSubstr("layer 18 is merged with 17, which is not recorded"));
  EXPECT_THAT(unmeasurable_reason(kPairs, recorded({17, 18, 19})), HasSubstr("layer 19 is merged with 20"));
  EXPECT_THAT(unmeasurable_reason(kPairs, recorded({1, 9})), HasSubstr("none of its layers is merged"));
  EXPECT_THAT(unmeasurable_reason({.group = 2}, recorded({17, 18})), HasSubstr("trained so"));
  EXPECT_THAT(unmeasurable_reason({}, recorded({18})), IsEmpty());
}

// Four layers, merged from the middle: the lower two are the trace's own, the upper two have one direction a position.
TEST(MergedTrace, LayersOfAGroupAreReadBackWithOneDirection) {
  TraceSource source;
  source.kind = TraceKind::synthetic;
  source.synthetic_kind = "rope";
  source.parameters = {{"layers", 4}, {"tokens", 256}};
  LossSetting loss;
  loss.measure_queries = MeasureQueries::answer;
  const TraceInputs trace(source, loss, 1);
  const std::vector<kv::LayerTensors> merged = merged_trace(kPairs, trace);
  ASSERT_EQ(merged.size(), 4u);
  EXPECT_EQ(merged[1].front().v, trace.layers()[1].front().v);
  EXPECT_NE(merged[2].front().v, trace.layers()[2].front().v);
  const auto lower = merged[2].front().k_post.row(0).normalized();
  EXPECT_NEAR(lower.dot(merged[3].front().k_post.row(0).normalized()), 1, 1e-6);
  EXPECT_NEAR(merged[3].front().k_post.row(0).norm(), trace.layers()[3].front().k_post.row(0).norm(), 2e-3);
  EXPECT_THAT(merged_trace({}, trace), IsEmpty());
}

}  // namespace
}  // namespace kvtide::experiment
