#pragma once
// Wavelengths of a model's rotary position encoding, scaling included: pair i turns once in 2 pi theta^(2i/d) tokens (Su et al., arXiv
// 2104.09864), d the rotated channels. Scaled as transformers 4.57.1 does (modeling_rope_utils.py).
//
// Example: theta 10,000, d 128: pair 0 6.28, pair 16 (a quarter of the spectrum) 20 pi = 62.83, pair 21 129.0 tokens.

#include <cstdint>
#include <vector>

#include "model/rope.h"

namespace kvtide {

/// Tokens a turn, [pair], in the model's own order of pairs. Empty without rotation.
/// @param max_positions  dynamic: the trained length is scaled to this many tokens; longrope: beyond the trained length the long list
///                       counts; others do not depend on it. 0: the trained length
/// @throws InputError  a scaling whose rule is not known here (`proportional`), or yarn and dynamic without a trained length
[[nodiscard]] std::vector<double> rope_wavelengths(const Rope& rope, std::int64_t trained_positions,
                                                   std::int64_t max_positions = 0);

/// Factor on cosines and sines: yarn 0.1 ln(factor) + 1, or the ratio of both mscales; longrope sqrt(1 + ln factor / ln trained length).
[[nodiscard]] double rope_amplitude(const Rope& rope, std::int64_t trained_positions);

}  // namespace kvtide
