#include "loss/fold_index.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/gamma.hpp>
#include <cmath>

#include "base/random.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kRotations = 1999;

std::int64_t test_bins(std::int64_t period) {
  return std::min(kTestBins, period);
}

double detrended_eta_squared(const Detrending& profile, std::int64_t period) {
  const Detrended clean = profile.without_mean_over(period);
  return eta_squared(clean.values, clean.first, period);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Integer periods in [P / 1.5, 1.5 P] that the fold can tell from P: further away than 2 P / cycles.
std::vector<std::int64_t> neighbours(std::int64_t period, std::int64_t num_values) {
  const auto p = static_cast<double>(period);
  const double blur = 2 * p * p / static_cast<double>(num_values);
  std::vector<std::int64_t> result;
  for (auto q = std::max<std::int64_t>(2, static_cast<std::int64_t>(std::ceil(p / 1.5)));
       q <= static_cast<std::int64_t>(1.5 * p); ++q) {
    if (std::abs(static_cast<double>(q - period)) > blur && q != period) result.push_back(q);
  }
  // A long period has hundreds of neighbours; every n-th tells the median as well.
  constexpr std::size_t kEnough = 64;
  if (result.size() > kEnough) {
    std::vector<std::int64_t> fewer;
    for (std::size_t i = 0; i < kEnough; ++i) fewer.push_back(result[i * result.size() / kEnough]);
    return fewer;
  }
  return result;
}

}  // namespace

Detrending::Detrending(std::span<const double> profile) : profile_(profile), sums_(profile.size() + 1, 0.0) {
  for (std::size_t j = 0; j < profile.size(); ++j) sums_[j + 1] = sums_[j] + profile[j];
}

Detrended Detrending::without_mean_over(std::int64_t period) const {
  const auto n = static_cast<std::int64_t>(profile_.size());
  const std::int64_t half = period / 2;
  Detrended result;
  result.first = half;
  if (period < 2 || 2 * half >= n) return result;
  result.values.resize(static_cast<std::size_t>(n - 2 * half));
  // What the value at `index` sees: profile[index] .. profile[index + 2 half].
  const double* profile = profile_.data();
  const double* sums = sums_.data();
  const auto width = static_cast<double>(period);
  const std::int64_t last = 2 * half;
  double* values = result.values.data();
  if (period % 2 == 1) {
    for (std::int64_t index = 0; index < n - last; ++index) {
      values[index] = profile[index + half] - (sums[index + last + 1] - sums[index]) / width;
    }
  } else {
    for (std::int64_t index = 0; index < n - last; ++index) {
      const double window = sums[index + last] - sums[index + 1] + 0.5 * (profile[index] + profile[index + last]);
      values[index] = profile[index + half] - window / width;
    }
  }
  return result;
}

Detrended detrend(std::span<const double> profile, std::int64_t period) {
  return Detrending(profile).without_mean_over(period);
}

double eta_squared(std::span<const double> values, std::int64_t first, std::int64_t period) {
  if (values.empty() || period < 2) return 0;
  const std::int64_t bins = test_bins(period);
  std::array<double, kTestBins> sum{};
  std::array<double, kTestBins> count{};
  double total = 0;
  double squares = 0;
  double largest = 0;
  std::int64_t phase = first % period;
  for (std::size_t index = 0; index < values.size();) {
    // A bin's phases follow one another.
    const std::int64_t bin = phase * bins / period;
    const std::int64_t end = ((bin + 1) * period + bins - 1) / bins;
    const std::size_t in_bin = std::min(static_cast<std::size_t>(end - phase), values.size() - index);
    double of_bin = sum[static_cast<std::size_t>(bin)];
    for (const double value : values.subspan(index, in_bin)) {
      of_bin += value;
      total += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    sum[static_cast<std::size_t>(bin)] = of_bin;
    count[static_cast<std::size_t>(bin)] += static_cast<double>(in_bin);
    index += in_bin;
    phase = end == period ? 0 : end;
  }
  const double mean = total / static_cast<double>(values.size());
  const double variance = squares - total * mean;
  // Rounding of the running sums leaves about 1e-16 of the profile's scale in a profile that is constant.
  constexpr double kRounding = 1e-12;
  if (variance <= kRounding * std::max(1.0, largest) * static_cast<double>(values.size()) * kRounding ||
      variance <= kRounding * squares) {
    return 0;
  }
  double between = 0;
  for (std::size_t bin = 0; bin < static_cast<std::size_t>(bins); ++bin) {
    if (count[bin] == 0) continue;
    const double deviation = sum[bin] / count[bin] - mean;
    between += count[bin] * deviation * deviation;
  }
  return std::min(1.0, between / variance);
}

double periodicity_index(double eta_squared, std::int64_t num_values, std::int64_t period) {
  const std::int64_t bins = test_bins(period);
  if (num_values <= bins || eta_squared <= 0) return 0;
  return 1 - (1 - eta_squared) * static_cast<double>(num_values - 1) / static_cast<double>(num_values - bins);
}

double rotation_p(std::span<const double> values, std::int64_t first, std::int64_t period, std::int64_t rotations,
                  std::uint64_t seed) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / std::max<std::int64_t>(1, period);
  if (rows < 2 || period < 2) return 1;
  const std::int64_t bins = test_bins(period);
  // Running sums of each row, so that a turned row costs one subtraction a bin.
  const auto width = static_cast<std::size_t>(period + 1);
  std::vector<double> sums(static_cast<std::size_t>(rows) * width, 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    double* line = sums.data() + static_cast<std::size_t>(row) * width;
    for (std::int64_t i = 0; i < period; ++i)
      line[i + 1] = line[i] + values[static_cast<std::size_t>(row * period + i)];
  }
  std::array<std::int64_t, kTestBins + 1> edges{};
  for (std::int64_t bin = 0; bin <= bins; ++bin)
    edges[static_cast<std::size_t>(bin)] = ceil(static_cast<double>(bin * period) / static_cast<double>(bins));
  double grand = 0;
  for (std::int64_t row = 0; row < rows; ++row) grand += sums[static_cast<std::size_t>(row) * width + width - 1];
  const double mean = grand / static_cast<double>(rows * period);

  const auto sharpness = [&](auto shift_of_row) {
    std::array<double, kTestBins> total{};
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* line = sums.data() + static_cast<std::size_t>(row) * width;
      const auto shift = static_cast<std::int64_t>(shift_of_row());
      const auto until = [&](std::int64_t i) { return i < period ? line[i] : line[period] + line[i - period]; };
      double before = until(edges[0] + shift);
      for (std::size_t bin = 0; bin < static_cast<std::size_t>(bins); ++bin) {
        const double here = until(edges[bin + 1] + shift);
        total[bin] += here - before;
        before = here;
      }
    }
    double result = 0;
    for (std::size_t bin = 0; bin < static_cast<std::size_t>(bins); ++bin) {
      const auto count = static_cast<double>(rows * (edges[bin + 1] - edges[bin]));
      result += (total[bin] - count * mean) * (total[bin] - count * mean) / count;
    }
    return result;
  };

  const std::int64_t aligned = (period - first % period) % period;
  const double observed = sharpness([aligned] { return aligned; });
  RandomStream random(seed, "loss.rotation");
  std::int64_t as_sharp = 0;
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < rotations; ++i) {
    const double value = sharpness([&] { return random.below(static_cast<std::uint64_t>(period)); });
    if (value >= observed * (1 - 1e-12)) ++as_sharp;
    sum += value;
    squares += value * value;
  }
  const double counted = static_cast<double>(as_sharp + 1) / static_cast<double>(rotations + 1);
  constexpr std::int64_t kEnoughToCount = 10;
  const double average = sum / static_cast<double>(rotations);
  const double variance = squares / static_cast<double>(rotations) - average * average;
  if (as_sharp >= kEnoughToCount || !(variance > 0) || !(average > 0)) return counted;
  // Approximation: beyond the resolution of the rotations, a gamma law with their mean and variance (a sum of squared
  // bin means is near chi-squared); checked by the false-alarm counts of periodicity_test.cc.
  const boost::math::gamma_distribution<double> law(average * average / variance, variance / average);
  return std::min(counted, boost::math::cdf(boost::math::complement(law, observed)));
}

LevelStatistics level_statistics(std::span<const double> profile, std::int64_t period, std::uint64_t seed,
                                 std::int64_t grid_offset) {
  LevelStatistics result;
  const auto n = static_cast<std::int64_t>(profile.size());
  if (period < 2 || n < 2 * period) return result;
  const Detrending detrending(profile);
  const Detrended clean = detrending.without_mean_over(period);
  const std::int64_t first = clean.first + (grid_offset % period + period) % period;
  const double eta = eta_squared(clean.values, first, period);
  result.index = periodicity_index(eta, static_cast<std::int64_t>(clean.values.size()), period);
  if (eta <= 0) return result;
  std::vector<double> others;
  for (const std::int64_t q : neighbours(period, n)) others.push_back(detrended_eta_squared(detrending, q));
  if (!others.empty()) {
    const double usual = median(std::move(others));
    result.ratio = usual > eta / kMaxRatio ? eta / usual : kMaxRatio;
  }
  result.rotations = kRotations;
  result.p = rotation_p(clean.values, first, period, kRotations, seed);
  return result;
}

BlindLevel search_level(std::span<const double> profile, std::int64_t max_period) {
  const auto n = static_cast<std::int64_t>(profile.size());
  BlindLevel result;
  std::vector<double> index(static_cast<std::size_t>(std::max<std::int64_t>(max_period, 1)) + 1, 0.0);
  double best = 0;
  const Detrending detrending(profile);
  for (std::int64_t period = 2; period <= max_period; ++period) {
    const Detrended clean = detrending.without_mean_over(period);
    double& here = index[static_cast<std::size_t>(period)];
    here = periodicity_index(eta_squared(clean.values, clean.first, period),
                             static_cast<std::int64_t>(clean.values.size()), period);
    if (here > best) {
      best = here;
      result.period = period;
    }
  }
  // A period's multiples fold as well as itself: prefer the shortest part that keeps 90 % of the index.
  for (std::int64_t part = result.period / 2; part >= 2; --part) {
    const std::int64_t near = result.period / part;
    std::int64_t candidate = near;
    if (near + 1 <= max_period && index[static_cast<std::size_t>(near + 1)] > index[static_cast<std::size_t>(near)]) {
      candidate = near + 1;
    }
    if (index[static_cast<std::size_t>(candidate)] >= 0.9 * best) {
      result.period = candidate;
      break;
    }
  }
  // Frequencies closer than 1/N are one test: every period up to sqrt(N) counts, longer ones by their frequency span.
  const double root = std::sqrt(static_cast<double>(n));
  const auto longest = static_cast<double>(max_period);
  result.independent_periods =
      std::max(1.0, longest <= root ? longest - 1 : root + static_cast<double>(n) * (1 / root - 1 / longest));
  return result;
}

double repetition(const Detrending& profile, std::int64_t period) {
  const Detrended clean = profile.without_mean_over(period);
  const auto n = static_cast<std::int64_t>(clean.values.size());
  if (n < 2 * period) return 0;
  std::vector<double> sum(static_cast<std::size_t>(period), 0.0);
  double total = 0;
  double squares = 0;
  for (std::int64_t index = 0; index < n; ++index) {
    const double value = clean.values[static_cast<std::size_t>(index)];
    sum[static_cast<std::size_t>(index % period)] += value;
    total += value;
    squares += value * value;
  }
  const double of_mean = total * total / static_cast<double>(n);
  constexpr double kRounding = 1e-12;  // of the running sums: what a constant profile leaves
  if (squares - of_mean <= kRounding * std::max(kRounding * static_cast<double>(n), squares)) return 0;
  double between = -of_mean;
  for (std::int64_t phase = 0; phase < period; ++phase) {
    const std::int64_t count = (n - phase + period - 1) / period;
    between += sum[static_cast<std::size_t>(phase)] * sum[static_cast<std::size_t>(phase)] / static_cast<double>(count);
  }
  const double eta = std::min(1.0, between / (squares - of_mean));
  return 1 - (1 - eta) * static_cast<double>(n - 1) / static_cast<double>(n - period);
}

std::int64_t repeating_period(std::span<const double> profile, std::int64_t found, std::int64_t max_period) {
  const Detrending detrending(profile);
  const auto n = static_cast<double>(profile.size());
  constexpr double kAsGood = 0.9;
  std::int64_t result = found;
  double best = 0;
  const auto settle = [&] {
    // Frequencies closer than 1/N are one.
    const auto middle = static_cast<double>(result);
    const auto blur = static_cast<std::int64_t>(std::ceil(middle * middle / n));
    best = repetition(detrending, result);
    const std::int64_t last = std::min(max_period, result + blur);
    for (std::int64_t near = std::max<std::int64_t>(2, result - blur); near <= last; ++near) {
      const double here = repetition(detrending, near);
      if (here <= best) continue;
      best = here;
      result = near;
    }
  };
  settle();
  // A multiple repeats as well as its period; it must do better than the noise of so many bins to take its place.
  const std::int64_t single = result;
  const double of_single = best;
  std::vector<double> of_multiple{of_single};
  for (std::int64_t multiple = 2 * single; multiple <= max_period; multiple += single) {
    const double noise = std::sqrt(2 * static_cast<double>(multiple)) / n;
    const double here = repetition(detrending, multiple);
    of_multiple.push_back(here);
    if (of_single < 0.8 * here && here > of_single + 4 * noise) best = std::max(best, here);
  }
  for (std::size_t i = 0; i < of_multiple.size(); ++i) {
    if (of_multiple[i] < kAsGood * best) continue;
    result = single * static_cast<std::int64_t>(i + 1);
    break;
  }
  settle();
  std::int64_t tried = 1;  // many parts have one length
  for (std::int64_t part = result / 2; part >= 2; --part) {
    for (const std::int64_t shorter : {result / part, result / part + 1}) {
      if (shorter <= tried || shorter >= result) continue;
      if (repetition(detrending, shorter) >= kAsGood * best) return shorter;
      tried = shorter;
    }
  }
  return result;
}

std::int64_t shortest_repetition(std::span<const double> profile, double least) {
  const Detrending detrending(profile);
  const auto longest = static_cast<std::int64_t>(profile.size()) / 3;
  std::vector<double> all(static_cast<std::size_t>(std::max<std::int64_t>(longest, 1)) + 1, 0.0);
  for (std::int64_t period = 2; period <= longest; ++period) {
    all[static_cast<std::size_t>(period)] = repetition(detrending, period);
  }
  const double wanted = std::max(least, 0.9 * *std::max_element(all.begin(), all.end()));
  const auto first = std::find_if(all.begin(), all.end(), [&](double value) { return value >= wanted; });
  return first == all.end() ? 0 : first - all.begin();
}

double correct_for_search(double p, double tests) {
  if (p >= 1) return 1;
  return -std::expm1(tests * std::log1p(-p));
}

}  // namespace kvtide::loss
