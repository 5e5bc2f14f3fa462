#include "loss/rope_resonance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace kvtide::loss {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Nearest in ratio: pairs are equally spaced in the logarithm.
std::size_t nearest_pair(std::span<const double> wavelengths, double tokens) {
  std::size_t best = 0;
  for (std::size_t pair = 1; pair < wavelengths.size(); ++pair) {
    if (std::abs(std::log(wavelengths[pair] / tokens)) < std::abs(std::log(wavelengths[best] / tokens))) best = pair;
  }
  return best;
}

double turns_off(double turns) {
  return std::abs(turns - std::round(turns));
}

}  // namespace

double pooled_amplitude(double width, double wavelength) {
  const double half = std::numbers::pi / wavelength;
  const double denominator = width * std::sin(half);
  return std::abs(denominator) < 1e-300 ? 1 : std::sin(width * half) / denominator;
}

double post_rope_pool_loss(std::span<const double> wavelengths, double width, double offset) {
  double sum = 0;
  for (const double wavelength : wavelengths) {
    const double d = pooled_amplitude(width, wavelength);
    sum += 1 + d * d - 2 * d * std::cos(kTurn / wavelength * offset);
  }
  return sum / static_cast<double>(wavelengths.size());
}

double pre_rope_pool_loss(std::span<const double> wavelengths, double offset) {
  double sum = 0;
  for (const double wavelength : wavelengths) sum += 2 - 2 * std::cos(kTurn / wavelength * offset);
  return sum / static_cast<double>(wavelengths.size());
}

double beat_period(double step, double wavelength) {
  const double off = turns_off(step / wavelength);
  return off > 1e-12 ? step / off : std::numeric_limits<double>::infinity();
}

BlockResonance block_resonance(std::span<const double> wavelengths, double block_size) {
  BlockResonance result;
  result.block_size = block_size;
  const std::size_t pair = nearest_pair(wavelengths, block_size);
  result.pair = static_cast<std::int64_t>(pair);
  result.wavelength = wavelengths[pair];
  result.amplitude = std::abs(pooled_amplitude(block_size, result.wavelength));
  result.beat = beat_period(block_size, result.wavelength);
  const double difference = std::abs(1 / block_size - 1 / result.wavelength);
  result.sideband_low = 1 / (1 / block_size + 1 / result.wavelength);
  result.sideband_high = difference > 1e-15 ? 1 / difference : std::numeric_limits<double>::infinity();
  for (const double wavelength : wavelengths) {
    result.pairs_within += wavelength <= block_size ? 1 : 0;
    result.pairs_near += wavelength >= block_size / 2 && wavelength <= 2 * block_size ? 1 : 0;
    result.quantizer_pairs += wavelength >= 2 * block_size && wavelength <= 8 * block_size ? 1 : 0;
    const double d = pooled_amplitude(block_size, wavelength);
    result.energy_kept += d * d / static_cast<double>(wavelengths.size());
  }
  // The middle of an even block lies between two tokens; the nearest are half a token away.
  const double edge = (block_size - 1) / 2;
  const double centre = std::fmod(block_size, 2) == 0 ? 0.5 : 0.0;
  const double centre_loss = post_rope_pool_loss(wavelengths, block_size, centre);
  result.post_edge_over_centre = centre_loss > 0 ? post_rope_pool_loss(wavelengths, block_size, edge) / centre_loss : 1;
  result.pre_edge_loss = pre_rope_pool_loss(wavelengths, edge);
  const std::size_t other = nearest_pair(wavelengths, 2 * block_size);
  result.quantizer_pair = static_cast<std::int64_t>(other);
  result.quantizer_wavelength = wavelengths[other];
  const double off = turns_off(2 * block_size / wavelengths[other]);
  result.quantizer_beat = off > 1e-12 ? block_size / off : std::numeric_limits<double>::infinity();
  result.resonates = result.beat >= kResonantBlocks * block_size;
  return result;
}

std::vector<BlockResonance> resonant_block_sizes(std::span<const double> wavelengths, std::int64_t min,
                                                 std::int64_t max) {
  std::vector<BlockResonance> result;
  for (std::size_t pair = 0; pair < wavelengths.size(); ++pair) {
    const double size = std::round(wavelengths[pair]);
    if (size < static_cast<double>(min) || size > static_cast<double>(max)) continue;
    const BlockResonance one = block_resonance(wavelengths, size);
    if (one.resonates && one.pair == static_cast<std::int64_t>(pair)) result.push_back(one);
  }
  std::sort(result.begin(), result.end(), [](const BlockResonance& a, const BlockResonance& b) {
    return a.beat / a.block_size != b.beat / b.block_size ? a.beat / a.block_size > b.beat / b.block_size
                                                          : a.block_size < b.block_size;
  });
  return result;
}

}  // namespace kvtide::loss
