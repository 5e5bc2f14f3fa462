#pragma once
// The period of a noise-free curve: the prefix sensitivity of a deterministic policy repeats exactly, or not at all.
//
// Example: 0 1 2 1 0 1 2 1 0 repeats after 4 samples (5 further values agree); 0 1 2 3 4 does not repeat.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

struct CurvePeriod {
  std::int64_t samples = 0;   ///< smallest lag at which the curve repeats; 0: none, or the curve is constant
  std::int64_t agreeing = 0;  ///< values that the repetition explains
};

/// The curve must cover two periods. Values that differ by 1e-9 of the curve's range count as equal.
[[nodiscard]] CurvePeriod find_curve_period(std::span<const double> curve);

/// Shifts at which to measure a curve that is known to repeat after `repeats_after`, at about the cost of one shift in
/// max_shift / 64: few, because each is dear, and of every remainder by two, three and four, because a compression that
/// pools or groups within its blocks answers to those. They are the same in every repetition up to max_shift.
///
/// Example: 64, four repetitions, dense 4: 0..5, 10, 15, 16, 21, 26, 31, 32, ... 63 (20 shifts), and each of them + 64, ...
///
/// @param repeats_after  >= 1
/// @param dense          shifts 0, 1, ..., dense are among them
/// @return rising, from 0
[[nodiscard]] std::vector<std::int64_t> sampled_shifts(std::int64_t max_shift, std::int64_t repeats_after,
                                                       std::int64_t dense);

/// The period, in tokens, of a curve that is known to repeat after `repeats_after`: the smallest of its divisors from 2
/// on at which the measured values agree, four of them at least. 0: the curve is constant, or two periods are not covered.
/// @param shift  [sample] rising
/// @param curve  [sample]
[[nodiscard]] std::int64_t find_residue_period(std::span<const std::int64_t> shift, std::span<const double> curve,
                                               std::int64_t repeats_after);

}  // namespace kvtide::loss
