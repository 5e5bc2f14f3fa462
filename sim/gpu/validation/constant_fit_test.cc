#include "gpu/validation/constant_fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::gpu {
namespace {

/// Times a + b x at x = 1, 10, 100, 1000, the third 10 times too slow where `has_outlier`.
std::vector<double> line_errors(const std::vector<double>& constants, bool has_outlier) {
  std::vector<double> errors;
  for (const double x : {1.0, 10.0, 100.0, 200.0, 500.0, 1000.0}) {
    const double measured = (7 + 0.02 * x) * (has_outlier && x == 100 ? 10 : 1);
    errors.push_back(std::log((constants[0] + constants[1] * x) / measured));
  }
  return errors;
}

TEST(ConstantFit, FindsALinesTwoConstants) {
  const std::vector<double> found =
      fit_constants({3, 0.1}, [](const auto& constants) { return line_errors(constants, false); });
  EXPECT_NEAR(found[0], 7, 1e-2);
  EXPECT_NEAR(found[1], 0.02, 1e-4);
}

// Least squares of logarithms would spread log 10 over the six rows; soft L1 leaves it on its own.
TEST(ConstantFit, AnOutlierDoesNotDragTheRest) {
  const std::vector<double> found =
      fit_constants({3, 0.1}, [](const auto& constants) { return line_errors(constants, true); });
  EXPECT_NEAR(found[0], 7, 0.2);
  EXPECT_NEAR(found[1], 0.02, 1e-3);
}

TEST(ConstantFit, WithoutRowsTheStartStays) {
  EXPECT_EQ(fit_constants({3, 4}, [](const auto&) { return std::vector<double>{}; }), (std::vector<double>{3, 4}));
}

}  // namespace
}  // namespace kvtide::gpu
