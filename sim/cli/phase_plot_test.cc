#include "cli/phase_plot.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace kvtide::cli {
namespace {

// Two columns of one line each: 0.5 of the highest fills half a cell (4 of 8 eighths).
TEST(PhasePlot, BarsAreProportional) {
  EXPECT_EQ(phase_plot(std::vector<double>{0.5, 1.0}, 10, 1),
            " 1.000 |▄█\n"
            "       +--\n"
            "        0 1\n");
}

// One spike among 1,000 phases drawn in 10 columns must stay visible at full height.
TEST(PhasePlot, NarrowSpikesSurvive) {
  std::vector<double> values(1000, 0.0);
  values[777] = 1.0;
  EXPECT_NE(phase_plot(values, 10, 1).find("█"), std::string::npos);
}

TEST(PhasePlot, UnmeasuredAndEmptyDrawNothing) {
  EXPECT_EQ(phase_plot(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}, 5, 1).find("█"),
            std::string::npos);
  EXPECT_FALSE(phase_plot({}, 5, 2).empty());
}

}  // namespace
}  // namespace kvtide::cli
