#include "serving/published_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace kvtide::serving {
namespace {

const char* const kFolder = KVTIDE_SOURCE_DIR "/../shared/data/e2e";

TEST(PublishedRuns, PreemptionsFallWithTheWatermarkAndStayInRange) {
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "needs ../shared/data/e2e";
  const std::vector<PreemptionRow> rows =
      predict_preemptions(KVTIDE_SOURCE_DIR "/../shared/data/e2e/preemption_watermark.csv", 10);
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(rows[i].mean, rows[i - 1].mean) << rows[i].watermark;
    }
    EXPECT_TRUE(rows[i].is_inside()) << rows[i].watermark << ": " << rows[i].measured << " against " << rows[i].low
                                     << " to " << rows[i].high;
  }
}

TEST(PublishedRuns, QuantizedCachesHoldWhatTheirBytesSayAndRunAsTheirKernelsDo) {
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "needs ../shared/data/e2e";
  int predicted = 0;
  for (const QuantizedRow& row : predict_quantized(KVTIDE_SOURCE_DIR "/../shared/data/e2e/kv_quant_serving.csv")) {
    if (!row.not_predicted.empty()) continue;
    ++predicted;
    EXPECT_NEAR(row.capacity_predicted / row.capacity_measured, 1, 0.03) << row.source;
    EXPECT_TRUE(row.is_on_the_right_side()) << row.source << " " << row.input_tokens << ": " << row.throughput_measured
                                            << " predicted " << row.throughput_predicted;
  }
  EXPECT_EQ(predicted, 6);
}

}  // namespace
}  // namespace kvtide::serving
