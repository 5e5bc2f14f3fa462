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

// 128 phases do not fit in 96 columns: 64 of two each, so that equal noise makes equal bars. 0, 1, 0, 1, ... is 1 everywhere.
TEST(PhasePlot, ColumnsHoldEquallyManyPhases) {
  std::vector<double> values(128);
  for (std::size_t phase = 0; phase < values.size(); ++phase) values[phase] = static_cast<double>(phase % 2);
  const std::string plot = phase_plot(values, 96, 1);
  const std::string bars = plot.substr(plot.find('|') + 1, plot.find('\n') - plot.find('|') - 1);
  std::string expected;
  for (int column = 0; column < 64; ++column) expected += "█";
  EXPECT_EQ(bars, expected);
  // 97 in 96: 49 columns, the last of one phase.
  EXPECT_NE(phase_plot(std::vector<double>(97, 1.0), 96, 1).find("+" + std::string(49, '-') + "\n"), std::string::npos);
  EXPECT_NE(phase_plot(std::vector<double>(96, 1.0), 96, 1).find("+" + std::string(96, '-') + "\n"), std::string::npos);
}

TEST(PhasePlot, UnmeasuredAndEmptyDrawNothing) {
  EXPECT_EQ(phase_plot(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}, 5, 1).find("█"),
            std::string::npos);
  EXPECT_FALSE(phase_plot({}, 5, 2).empty());
}

}  // namespace
}  // namespace kvtide::cli
