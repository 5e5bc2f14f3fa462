#pragma once
// Counter-based random numbers: one generator per named stream, so that a new consumer never moves another's numbers.
// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): output n of a stream is a pure function of (seed, name, n), the same on
// every platform.

#include <cmath>
#include <cstdint>
#include <string_view>

namespace kvtide {

/// The SplitMix64 finaliser; mix(0) = 16294208416658607535.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// FNV-1a 64 of a text; used to name streams and to derive run keys.
[[nodiscard]] constexpr std::uint64_t fnv1a64(std::string_view text, std::uint64_t hash = 1469598103934665603ULL) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) : key_(mix64(seed ^ fnv1a64(name))) {}

  [[nodiscard]] std::uint64_t next() { return mix64(key_ + counter_++ * 0xD1342543DE82EF95ULL); }

  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Uniform in 0..bound-1 without bias worth speaking of (128-bit multiply). @param bound > 0
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

  /// Standard normal (Box-Muller; two uniforms a draw).
  [[nodiscard]] double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace kvtide
