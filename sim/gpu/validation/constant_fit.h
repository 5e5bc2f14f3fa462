#pragma once
// Positive constants fitted to measured times: least squares of log(predicted / measured), with errors beyond 5 % counted
// linearly (soft L1), by Levenberg-Marquardt over the logarithms of the constants. Outliers so cannot drag the fit, and a
// constant cannot change its sign.

#include <functional>
#include <vector>

namespace kvtide::gpu {

/// log(predicted / measured) of every row under these constants; always as many, finite.
using LogErrors = std::function<std::vector<double>(const std::vector<double>& constants)>;

/// @param start  all > 0; also the starting point
/// @return constants of the least cost found, in the order of `start`; deterministic. `start` where there are no rows
[[nodiscard]] std::vector<double> fit_constants(const std::vector<double>& start, const LogErrors& log_errors);

}  // namespace kvtide::gpu
