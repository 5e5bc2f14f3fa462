#include "serving/output_estimate.h"

#include <gtest/gtest.h>

namespace kvtide::serving {
namespace {

// (0.7 - 0.098) / 600 = 0.0010033 a step.
TEST(OutputEstimate, FallsOver600DecodeStepsAndNoFurther) {
  OutputEstimate estimate;
  EXPECT_DOUBLE_EQ(estimate.share(), 0.7);
  EXPECT_NEAR(estimate.share(1), 0.6989967, 1e-7);
  estimate.on_decode(599);
  EXPECT_NEAR(estimate.share(), 0.0990033, 1e-7);
  EXPECT_NEAR(estimate.share(1), 0.098, 1e-12);
  estimate.on_decode(1000);
  EXPECT_DOUBLE_EQ(estimate.share(), 0.098);
}

// Two requests with 80 of 1,000 tokens each: (160 + 2 x 20) / 2,001.
TEST(OutputEstimate, ARetractionSetsItToWhatHasBeenGenerated) {
  OutputEstimate estimate;
  estimate.on_decode(1000);
  estimate.on_retraction(2, 160, 2000);
  EXPECT_NEAR(estimate.share(), 200.0 / 2001, 1e-12);
  estimate.on_decode(1);
  EXPECT_NEAR(estimate.share(), 200.0 / 2001 - 0.602 / 600, 1e-12);
  estimate.on_retraction(1, 30, 999);  // (30 + 20) / 1,000, and no less than the least from the next step on
  EXPECT_DOUBLE_EQ(estimate.share(), 0.05);
  EXPECT_DOUBLE_EQ(estimate.share(1), 0.098);
  estimate.on_retraction(1, 100, 100);
  EXPECT_DOUBLE_EQ(estimate.share(), 1);
}

}  // namespace
}  // namespace kvtide::serving
