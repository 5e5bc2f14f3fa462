#include "kv/compression/level_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/vector_width.h"

namespace kvtide::kv {
namespace {

constexpr int kIterations = 400;  // 16 levels of a normal move by less than 1e-6 afterwards
constexpr std::int32_t kMostBits = 4;
constexpr std::size_t kGridPoints = 4096;

double density(double x) {
  return std::isinf(x) ? 0 : std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
double distribution(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2;
}

std::vector<float> normal_levels(std::int32_t bits) {
  const std::size_t count = std::size_t{1} << bits;
  std::vector<double> levels(count);
  for (std::size_t index = 0; index < count; ++index) {
    levels[index] = -2 + 4 * (static_cast<double>(index) + 0.5) / static_cast<double>(count);
  }
  for (int iteration = 0; iteration < kIterations * bits; ++iteration) {
    double low = -INFINITY;
    for (std::size_t index = 0; index < count; ++index) {
      const double high = index + 1 < count ? (levels[index] + levels[index + 1]) / 2 : INFINITY;
      const double share = distribution(high) - distribution(low);
      if (share > 0) levels[index] = (density(low) - density(high)) / share;
      low = high;
    }
  }
  return {levels.begin(), levels.end()};
}

}  // namespace

const std::vector<float>& gaussian_levels(std::int32_t bits) {
  KVTIDE_ASSERT(bits >= 1 && bits <= kMostBits, "levels of 1 to 4 bits");
  static const std::array<std::vector<float>, kMostBits> kTables = [] {
    std::array<std::vector<float>, kMostBits> tables;
    for (std::int32_t count = 1; count <= kMostBits; ++count) {
      tables[static_cast<std::size_t>(count - 1)] = normal_levels(count);
    }
    return tables;
  }();
  return kTables[static_cast<std::size_t>(bits - 1)];
}

std::vector<float> density_levels(const std::function<double(double)>& weight_of, double low, double high,
                                  std::int32_t num_levels) {
  std::vector<double> at(kGridPoints);
  std::vector<double> weight(kGridPoints);
  for (std::size_t point = 0; point < kGridPoints; ++point) {
    at[point] = low + (high - low) * (static_cast<double>(point) + 0.5) / static_cast<double>(kGridPoints);
    weight[point] = weight_of(at[point]);
  }
  std::vector<float> levels;
  for (std::int32_t index = 0; index < num_levels; ++index) {
    levels.push_back(static_cast<float>(low + (high - low) * (index + 0.5) / num_levels));
  }
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::size_t point = 0;
    std::vector<float> moved = levels;
    for (std::size_t index = 0; index < levels.size(); ++index) {
      const double edge = index + 1 < levels.size() ? (levels[index] + levels[index + 1]) / 2 : high;
      double sum = 0;
      double share = 0;
      for (; point < kGridPoints && at[point] <= edge; ++point) {
        sum += weight[point] * at[point];
        share += weight[point];
      }
      if (share > 0) moved[index] = static_cast<float>(sum / share);
    }
    levels = std::move(moved);
  }
  return levels;
}

std::vector<float> fitted_levels(std::span<const float> sorted, std::int32_t num_levels) {
  constexpr int kRounds = 30;
  KVTIDE_ASSERT(!sorted.empty(), "levels of no numbers");
  std::vector<double> sums{0};
  sums.reserve(sorted.size() + 1);
  for (const float x : sorted) sums.push_back(sums.back() + static_cast<double>(x));
  std::vector<float> levels;
  for (std::int32_t index = 0; index < num_levels; ++index) {
    levels.push_back(sorted[static_cast<std::size_t>((index + 0.5) / num_levels * static_cast<double>(sorted.size()))]);
  }
  for (int round = 0; round < kRounds; ++round) {
    std::size_t begin = 0;
    std::vector<float> moved = levels;
    for (std::size_t index = 0; index < levels.size(); ++index) {
      const float edge = index + 1 < levels.size() ? (levels[index] + levels[index + 1]) / 2 : sorted.back();
      const auto end = static_cast<std::size_t>(std::ranges::upper_bound(sorted, edge) - sorted.begin());
      if (end > begin) moved[index] = static_cast<float>((sums[end] - sums[begin]) / static_cast<double>(end - begin));
      begin = std::max(begin, end);
    }
    if (moved == levels) break;
    levels = std::move(moved);
  }
  return levels;
}

float nearest_level(std::span<const float> levels, float x) {
  const auto above = std::ranges::lower_bound(levels, x);
  if (above == levels.begin()) return levels.front();
  if (above == levels.end()) return levels.back();
  const float below = *std::prev(above);
  return x - below <= *above - x ? below : *above;
}

namespace {

KVTIDE_EVERY_VECTOR_WIDTH
void take_nearest(const float* levels, std::int64_t num_levels, float* values, std::int64_t count) {
  constexpr std::int64_t kAtOnce = 64;
  const auto take = [&](float* some, std::int64_t num) __attribute__((always_inline)) {
    float nearest[kAtOnce];
    for (std::int64_t i = 0; i < num; ++i) nearest[i] = levels[0];
    for (std::int64_t upper = 1; upper < num_levels; ++upper) {
      const float below = levels[upper - 1];
      const float above = levels[upper];
      for (std::int64_t i = 0; i < num; ++i) nearest[i] = some[i] - below <= above - some[i] ? nearest[i] : above;
    }
    for (std::int64_t i = 0; i < num; ++i) some[i] = nearest[i];
  };
  std::int64_t first = 0;
  for (; first + kAtOnce <= count; first += kAtOnce) take(values + first, kAtOnce);
  take(values + first, count - first);
}

/// Unsigned numbers in the order of the floats.
std::uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

float from_ordered_bits(std::uint32_t ordered) {
  return std::bit_cast<float>((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

}  // namespace

void take_nearest_levels(std::span<const float> levels, float* values, std::int64_t count) {
  take_nearest(levels.data(), std::ssize(levels), values, count);
}

void sort_numbers(std::vector<float>& numbers) {
  constexpr unsigned kDigitBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  constexpr std::size_t kPasses = 3;
  const auto digit_of = [](std::uint32_t bits, std::size_t pass) {
    return (bits >> (static_cast<unsigned>(pass) * kDigitBits)) & (kDigits - 1);
  };
  // How often each digit comes is counted for all passes at once: it does not depend on the order.
  std::array<std::vector<std::size_t>, kPasses> next;
  for (auto& of_pass : next) of_pass.assign(kDigits, 0);
  auto from = std::make_unique_for_overwrite<std::uint32_t[]>(numbers.size());
  auto to = std::make_unique_for_overwrite<std::uint32_t[]>(numbers.size());
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    const std::uint32_t bits = ordered_bits(numbers[index]);
    from[index] = bits;
    for (std::size_t pass = 0; pass < kPasses; ++pass) ++next[pass][digit_of(bits, pass)];
  }
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    std::vector<std::size_t>& places = next[pass];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), std::size_t{0});
    for (std::size_t index = 0; index < numbers.size(); ++index) {
      to[places[digit_of(from[index], pass)]++] = from[index];
    }
    std::swap(from, to);
  }
  for (std::size_t index = 0; index < numbers.size(); ++index) numbers[index] = from_ordered_bits(from[index]);
}

}  // namespace kvtide::kv
