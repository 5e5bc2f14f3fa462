#pragma once
// Two periods in one model: the block grid and the wavelengths of the rotary position encoding. Where a wavelength is near
// the block size, the phase at which blocks begin drifts slowly, and a second, much longer period appears.
//
// Worked example (theta 10,000, 128 rotated channels, blocks of 64): pair 16 turns in 20 pi = 62.83 tokens. 64 / 62.83 = 1.0186, so the
// phase at block starts repeats every 64 / 0.0186 = 3,442 tokens. Averaging 64 rotated copies of a constant key leaves
// |sin(64 w / 2) / (64 sin(w / 2))| = 0.018 of that pair, w = 2 pi / 62.83.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

/// Share of a constant key's amplitude that survives when `width` consecutive rotated copies are averaged: sin(B w / 2) / (B sin(w / 2)),
/// w = 2 pi / wavelength; signed; 0 when width is a whole number of wavelengths, 1 for width 1.
[[nodiscard]] double pooled_amplitude(double width, double wavelength);

/// Loss of a constant key at `offset` positions from the middle of a block pooled after rotation, mean over pairs of equal energy:
/// 1 + D^2 - 2 D cos(w x). Lowest in the middle, highest at both ends.
[[nodiscard]] double post_rope_pool_loss(std::span<const double> wavelengths, double width, double offset);
/// The same for a mean of unrotated keys that is rotated to the block's middle: 2 - 2 cos(w x), 0 in the middle. (Rotated to each
/// position's own angle, a constant key loses nothing.)
[[nodiscard]] double pre_rope_pool_loss(std::span<const double> wavelengths, double offset);

/// Token distance after which the phases of a wavelength at steps of `step` tokens repeat: step / distance of step / wavelength from a
/// whole number; infinite where it is whole.
[[nodiscard]] double beat_period(double step, double wavelength);

struct BlockResonance {
  double block_size = 0;
  std::int64_t pair = 0;  ///< whose wavelength is nearest to block_size
  double wavelength = 0;
  double amplitude = 0;     ///< |pooled_amplitude| of that pair
  double beat = 0;          ///< tokens; beat_period(block_size, wavelength)
  double sideband_low = 0;  ///< periods (tokens) of 1/B + 1/T and |1/B - 1/T|; the latter infinite when equal
  double sideband_high = 0;
  std::int64_t pairs_within = 0;     ///< wavelength <= block_size
  std::int64_t pairs_near = 0;       ///< within a factor of 2 of block_size
  double energy_kept = 0;            ///< mean over pairs of pooled_amplitude^2, pooled after rotation
  double post_edge_over_centre = 0;  ///< post_rope_pool_loss at the ends over the middle
  double pre_edge_loss = 0;          ///< pre_rope_pool_loss at the ends
  std::int64_t quantizer_pair = 0;   ///< nearest to 2 block_size: groups of block_size tokens see its phase
  double quantizer_wavelength = 0;
  double quantizer_beat = 0;         ///< block_size / distance of 2 block_size / wavelength from a whole number
  std::int64_t quantizer_pairs = 0;  ///< 2 G <= wavelength <= 8 G: error power swings with half their wavelength
  bool resonates = false;            ///< the beat is at least kResonantBlocks blocks long
};
/// A drift of one cycle in fewer blocks than this averages out within a prompt.
inline constexpr double kResonantBlocks = 16;

/// @param wavelengths  ascending or not, not empty
/// @param block_size   >= 2
[[nodiscard]] BlockResonance block_resonance(std::span<const double> wavelengths, double block_size);

/// Whole block sizes of min..max that resonate, most strongly first, each wavelength's best only.
[[nodiscard]] std::vector<BlockResonance> resonant_block_sizes(std::span<const double> wavelengths, std::int64_t min,
                                                               std::int64_t max);

}  // namespace kvtide::loss
