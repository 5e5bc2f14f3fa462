#pragma once
// Quantities of the simulation and their text forms.
// Simulated time is an integer count of picoseconds (int64 lasts 106 days); bytes are uint64.
// GB is 1e9 bytes, GiB is 2^30 bytes; every printed quantity says which.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvtide {

using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
using Bytes = std::uint64_t;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

/// Rounds to the nearest picosecond. @param seconds finite, |seconds| < 9.2e6
[[nodiscard]] Picoseconds from_seconds(double seconds);
[[nodiscard]] constexpr double to_seconds(Picoseconds time) {
  return static_cast<double>(time.count()) * 1e-12;
}
[[nodiscard]] constexpr double to_microseconds(Picoseconds time) {
  return static_cast<double>(time.count()) * 1e-6;
}

/// What a quantity measures. A dimensioned value is written with its unit ("45 ns", "80 GiB", "3.35 TB/s").
enum class Dimension : std::uint8_t { time, size, bandwidth, frequency, rate, flops, money_rate };

/// "1.5 us" -> 1.5e-6. SI base unit of the dimension: s, B, B/s, Hz, 1/s, FLOP/s, USD/h.
/// A bare number is accepted only when it is zero. @return nothing when the text is not a quantity of that dimension
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text, Dimension dimension);

/// "s, ms, us, ns, ps": the units that parse_quantity knows for a dimension, for error messages.
[[nodiscard]] std::string known_units(Dimension dimension);

/// 4294967296 -> "4.00 GiB" (binary prefixes, never "GB").
[[nodiscard]] std::string format_bytes(double bytes);

/// a * b, or InputError naming `what` when the product leaves 64 bits (80 layers x 32768 x 8 x 128 exceeds 32 bits).
[[nodiscard]] std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, std::string_view what);

/// ceil(a / b) for a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace kvtide
