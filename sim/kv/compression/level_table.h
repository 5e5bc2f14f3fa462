#pragma once
// Scalar quantizers with uneven levels: the levels of least squared error for a density (Lloyd 1982, Max 1960), or for
// numbers at hand.
// Example: one bit for a standard normal: levels -+sqrt(2/pi) = -+0.798, error 1 - 2/pi = 0.3634.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvtide::kv {

/// Lloyd-Max levels of a standard normal, ascending. @param bits  1..4
[[nodiscard]] const std::vector<float>& gaussian_levels(std::int32_t bits);

/// Lloyd-Max levels of a density on [low, high], found on a grid of 4,096 points.
[[nodiscard]] std::vector<float> density_levels(const std::function<double(double)>& density, double low, double high,
                                                std::int32_t num_levels);

/// Lloyd's iteration (k-means in one dimension) over numbers; levels start at equal shares of the sorted numbers.
/// @param sorted  ascending, not empty
[[nodiscard]] std::vector<float> fitted_levels(std::span<const float> sorted, std::int32_t num_levels);

/// The level nearest to x; of two equally near the lower.
[[nodiscard]] float nearest_level(std::span<const float> levels, float x);

/// nearest_level of each of `count` values in place; for the few levels of a code, which are all looked at.
void take_nearest_levels(std::span<const float> levels, float* values, std::int64_t count);

/// Ascending, by the numbers' bits: a few passes over them, whatever they are. NaN: behind all others.
void sort_numbers(std::vector<float>& numbers);

}  // namespace kvtide::kv
