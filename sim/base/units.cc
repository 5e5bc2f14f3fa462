#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace kvtide {
namespace {

struct Unit {
  Dimension dimension;
  std::string_view name;
  double in_base_units;
};

constexpr std::array kUnits{
    Unit{Dimension::time, "s", 1},
    Unit{Dimension::time, "ms", 1e-3},
    Unit{Dimension::time, "us", 1e-6},
    Unit{Dimension::time, "ns", 1e-9},
    Unit{Dimension::time, "ps", 1e-12},
    Unit{Dimension::size, "B", 1},
    Unit{Dimension::size, "kB", 1e3},
    Unit{Dimension::size, "MB", 1e6},
    Unit{Dimension::size, "GB", 1e9},
    Unit{Dimension::size, "TB", 1e12},
    Unit{Dimension::size, "KiB", 1024.0},
    Unit{Dimension::size, "MiB", 1048576.0},
    Unit{Dimension::size, "GiB", 1073741824.0},
    Unit{Dimension::size, "TiB", 1099511627776.0},
    Unit{Dimension::bandwidth, "B/s", 1},
    Unit{Dimension::bandwidth, "MB/s", 1e6},
    Unit{Dimension::bandwidth, "GB/s", 1e9},
    Unit{Dimension::bandwidth, "TB/s", 1e12},
    Unit{Dimension::bandwidth, "Gbit/s", 1e9 / 8},
    Unit{Dimension::frequency, "Hz", 1},
    Unit{Dimension::frequency, "MHz", 1e6},
    Unit{Dimension::frequency, "GHz", 1e9},
    Unit{Dimension::rate, "/s", 1},
    Unit{Dimension::rate, "/min", 1.0 / 60},
    Unit{Dimension::rate, "/h", 1.0 / 3600},
    Unit{Dimension::flops, "GFLOP/s", 1e9},
    Unit{Dimension::flops, "TFLOP/s", 1e12},
    Unit{Dimension::flops, "PFLOP/s", 1e15},
    Unit{Dimension::money_rate, "USD/h", 1},
};

constexpr double kMaxSeconds = 9.2e6;

}  // namespace

Picoseconds from_seconds(double seconds) {
  if (!(std::abs(seconds) <= kMaxSeconds)) {
    throw InputError(
        fmt::format("a time of {:.3g} s: simulated time holds at most {:g} s (106 days)", seconds, kMaxSeconds));
  }
  return Picoseconds(std::llround(seconds * 1e12));
}

std::optional<double> parse_quantity(std::string_view text, Dimension dimension) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return value == 0 ? std::optional(0.0) : std::nullopt;
  for (const Unit& known : kUnits) {
    if (known.dimension == dimension && known.name == unit) return value * known.in_base_units;
  }
  return std::nullopt;
}

std::string known_units(Dimension dimension) {
  std::string names;
  for (const Unit& known : kUnits) {
    if (known.dimension != dimension) continue;
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

std::string format_bytes(double bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t power = 0;
  while (std::abs(bytes) >= 1024 && power + 1 < kNames.size()) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kNames[power]);
}

std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw InputError(fmt::format("{}: {} x {} does not fit in 64 bits", what, a, b));
  }
  return product;
}

}  // namespace kvtide
