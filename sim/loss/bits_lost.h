#pragma once
// Information lost per stored element, by the rate-distortion function of a Gaussian source,
// R(D) = 1/2 log2(variance / D) (Shannon; Cover and Thomas, Elements of Information Theory, section 10.3.2).
//
// Distortion is an average, so the squared error of a position is averaged over the channels, each in units of its own
// variance, before the logarithm: D = mean_c (x_jc - xhat_jc)^2 / var_c, and
//   bits(j) = 1/2 log2(clamp(D, D0, 1) / D0),   D0 = 2^(-2 * 12.23).
// 12.23 bits is what fp16 itself tells about an element of a unit Gaussian, so an evicted position loses 12.23 bits per
// element and an untouched one 0. K (as attention sees it, after RoPE) and V count half each.
//
// Example: int4 with D = 0.0061 leaves 1/2 log2(1 / 0.0061) = 3.68 bits, so 12.23 - 3.68 = 8.55 are lost.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {

/// Bits per element that fp16 holds of a unit Gaussian: -1/2 log2 of its mean squared rounding error, 4.3e-8.
inline constexpr double kFp16Bits = 12.23;

/// @return 0..kFp16Bits
[[nodiscard]] double bits_lost_at_distortion(double distortion);

/// @return [channel] 1 / (standard deviation over the rows * root of the number of channels that vary), 0 for a constant
///         channel: the squares of a row's errors times these sum up to its distortion
[[nodiscard]] std::vector<float> distortion_factors(const kv::RowMatrix& rows);

/// D of the K and V of changed positions, [changed position], space for whole registers.
struct Distortions {
  explicit Distortions(std::int64_t num_changed = 0);
  std::vector<float> keys;
  std::vector<float> values;
};

/// @return [position]; channels that never vary are left out
[[nodiscard]] std::vector<double> bits_lost(const TouchedPositions& touched, const Distortions& distortions);

/// The same, distortions measured first.
[[nodiscard]] std::vector<double> bits_lost(const HeadReference& reference, const TouchedPositions& touched,
                                            const kv::EntryTable& table);

}  // namespace kvtide::loss
