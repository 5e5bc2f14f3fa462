#pragma once
// How positions enter a model's attention: rotation of part of each head, and its scaling beyond the trained length.
// Bytes and times do not depend on it; periods of the loss do.

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide {

/// The `rope_scaling` (or scaled `rope_parameters`) of a config.json. Unused fields keep their zeros.
struct RopeScaling {
  std::string type = "none";            ///< none | linear | dynamic | llama3 | yarn | longrope | proportional
  double factor = 0;                    ///< wavelengths are stretched by it (yarn and llama3: the long ones only)
  std::int64_t original_positions = 0;  ///< trained length; 0: not given
  double low_freq_factor = 0;           ///< llama3: wavelengths above original / low are stretched
  double high_freq_factor = 0;          ///< llama3: those below original / high are not
  double beta_fast = 0;                 ///< yarn: pairs with more turns than this keep their wavelength
  double beta_slow = 0;                 ///< yarn: those with fewer are stretched in full
  bool truncates = true;                ///< yarn: are the ramp's ends rounded to whole pairs?
  double mscale = 0;                    ///< yarn: amplitude
  double mscale_all_dim = 0;            ///< yarn: amplitude of the softmax scale
  double attention_factor = 0;          ///< given amplitude; 0: follows from factor
  std::vector<double> short_factor;     ///< longrope: divisor of each pair up to the trained length
  std::vector<double> long_factor;      ///< longrope: beyond it
};

/// Rotation of one type of layer.
struct Rope {
  double theta = 0;             ///< base; 0: no rotation (learned positions, ALiBi, none)
  std::int64_t rotary_dim = 0;  ///< rotated channels of a head; the others carry no phase
  RopeScaling scaling;
};

}  // namespace kvtide
