#include "model/rope_wavelengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace kvtide {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

std::int64_t trained_length(const Rope& rope, std::int64_t trained_positions) {
  const std::int64_t length = rope.scaling.original_positions > 0 ? rope.scaling.original_positions : trained_positions;
  if (length <= 0)
    throw InputError(
        fmt::format("RoPE scaling \"{}\" needs the trained length, which the model does not state", rope.scaling.type));
  return length;
}

double llama3(double wavelength, const RopeScaling& scaling) {
  const auto trained = static_cast<double>(scaling.original_positions);
  if (wavelength < trained / scaling.high_freq_factor) return wavelength;
  if (wavelength > trained / scaling.low_freq_factor) return wavelength * scaling.factor;
  const double smooth =
      (trained / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return wavelength / (smooth + (1 - smooth) / scaling.factor);
}

/// Pairs with more turns in the trained length than beta_fast keep their wavelength, those with fewer than beta_slow are stretched, a
/// straight ramp of frequencies between.
void scale_yarn(const Rope& rope, double trained, std::vector<double>& wavelengths) {
  const auto d = static_cast<double>(rope.rotary_dim);
  const auto pair_of_turns = [&](double turns) {
    return d * std::log(trained / (kTurn * turns)) / (2 * std::log(rope.theta));
  };
  double low = pair_of_turns(rope.scaling.beta_fast);
  double high = pair_of_turns(rope.scaling.beta_slow);
  if (rope.scaling.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1);
  if (low == high) high += 0.001;  // as the implementation avoids a division by zero
  for (std::size_t pair = 0; pair < wavelengths.size(); ++pair) {
    const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    wavelengths[pair] /= (1 - stretched) + stretched / rope.scaling.factor;
  }
}

}  // namespace

std::vector<double> rope_wavelengths(const Rope& rope, std::int64_t trained_positions, std::int64_t max_positions) {
  std::vector<double> result;
  if (rope.theta <= 0 || rope.rotary_dim < 2) return result;
  const RopeScaling& scaling = rope.scaling;
  const auto d = static_cast<double>(rope.rotary_dim);
  double theta = rope.theta;
  if (scaling.type == "dynamic") {
    const auto trained = static_cast<double>(trained_length(rope, trained_positions));
    const double length = std::max(trained, static_cast<double>(max_positions));
    if (d > 2) theta *= std::pow(scaling.factor * length / trained - (scaling.factor - 1), d / (d - 2));
  }
  for (std::int64_t pair = 0; pair < rope.rotary_dim / 2; ++pair) {
    result.push_back(kTurn * std::pow(theta, 2 * static_cast<double>(pair) / d));
  }
  if (scaling.type == "none" || scaling.type == "dynamic") return result;
  if (scaling.type == "linear") {
    for (double& wavelength : result) wavelength *= scaling.factor;
  } else if (scaling.type == "llama3") {
    for (double& wavelength : result) wavelength = llama3(wavelength, scaling);
  } else if (scaling.type == "yarn") {
    scale_yarn(rope, static_cast<double>(trained_length(rope, trained_positions)), result);
  } else if (scaling.type == "longrope") {
    const bool is_long = max_positions > trained_length(rope, trained_positions);
    const std::vector<double>& factors = is_long ? scaling.long_factor : scaling.short_factor;
    for (std::size_t pair = 0; pair < std::min(result.size(), factors.size()); ++pair) result[pair] *= factors[pair];
  } else {
    throw InputError(fmt::format(
        "wavelengths of RoPE scaling \"{}\" are not known here (none, linear, dynamic, llama3, yarn, longrope are)",
        scaling.type));
  }
  return result;
}

double rope_amplitude(const Rope& rope, std::int64_t trained_positions) {
  const RopeScaling& scaling = rope.scaling;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  if (scaling.factor <= 1) return 1;
  const auto yarn = [&](double mscale) { return 0.1 * mscale * std::log(scaling.factor) + 1; };
  if (scaling.type == "yarn") {
    const bool has_both = scaling.mscale > 0 && scaling.mscale_all_dim > 0;
    return has_both ? yarn(scaling.mscale) / yarn(scaling.mscale_all_dim) : yarn(1);
  }
  if (scaling.type == "longrope") {
    return std::sqrt(1 +
                     std::log(scaling.factor) / std::log(static_cast<double>(trained_length(rope, trained_positions))));
  }
  return 1;
}

}  // namespace kvtide
