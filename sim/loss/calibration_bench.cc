// How often the period tests cry wolf, and how often they see what is there: shares in percent, not speeds. Seeds are fixed, so the figures are
// the same on every machine. `tabulated` is what independent runs of the same rule gave (4,096 positions, period 128).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "loss/edge_grid.h"
#include "loss/fold_index.h"
#include "loss/periodicity.h"
#include "loss/scan_period.h"
#include "loss/spectral_search.h"
#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

/// Share of `runs` for which `says_so(seed)`, in percent.
/// @param tabulated  below 0: none
void count_runs(benchmark::State& state, const char* what, std::uint64_t runs, double tabulated,
                const std::function<bool(std::uint64_t)>& says_so) {
  double share = 0;
  for (auto _ : state) {
    std::uint64_t yes = 0;
    for (std::uint64_t seed = 0; seed < runs; ++seed) yes += says_so(seed) ? 1 : 0;
    share = 100 * static_cast<double>(yes) / static_cast<double>(runs);
  }
  state.counters["share_percent"] = share;
  if (tabulated >= 0) state.counters["tabulated_percent"] = tabulated;
  state.SetLabel(std::to_string(runs) + " runs " + what);
}

double rho_of(const benchmark::State& state) {
  return static_cast<double>(state.range(0)) / 100;
}

/// The gates of periodicity.cc at a known period.
bool is_level(const std::vector<double>& profile, std::int64_t period, std::uint64_t seed) {
  const LevelStatistics level = level_statistics(profile, period, seed);
  return level.index >= 0.05 && level.ratio >= 5 && level.p <= 0.005;
}

void statistics_level_false_alarms(benchmark::State& state) {
  const double rho = rho_of(state);
  count_runs(state, "of noise", 1000,
             rho == 0     ? 0
             : rho < 0.98 ? 0.1
                          : 0.6,
             [&](std::uint64_t seed) { return is_level(autoregressive(4096, rho, seed), 128, seed); });
}
BENCHMARK(statistics_level_false_alarms)
    ->Arg(0)
    ->Arg(95)
    ->Arg(99)
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Square wave of range(1) / 10 standard deviations from low to high.
void statistics_level_power(benchmark::State& state) {
  const double rho = rho_of(state);
  const double height = static_cast<double>(state.range(1)) / 10;
  constexpr double kWhite[]{0, 88, 100, 100};
  constexpr double kColoured[]{18, 65, 98, 100};
  const std::size_t column = height < 0.4 ? 0 : height < 0.6 ? 1 : height < 0.8 ? 2 : 3;
  count_runs(state, "with a wave", 200, rho == 0 ? kWhite[column] : kColoured[column], [&](std::uint64_t seed) {
    std::vector<double> profile = autoregressive(4096, rho, seed);
    for (std::size_t j = 0; j < profile.size(); ++j) profile[j] += j % 128 < 64 ? height / 2 : -height / 2;
    return is_level(profile, 128, seed);
  });
}
BENCHMARK(statistics_level_power)
    ->ArgsProduct({{0, 95}, {3, 5, 7, 10}})
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Every rule and the search for the period together, 512 positions.
void statistics_verdict_false_alarms(benchmark::State& state) {
  count_runs(state, "of noise", 200, -1, [&](std::uint64_t seed) {
    const std::vector<double> profile = autoregressive(512, rho_of(state), seed);
    PeriodQuestion question;
    question.loss = profile;
    question.seed = seed;
    return find_period(question).kind != PeriodKind::none;
  });
}
BENCHMARK(statistics_verdict_false_alarms)
    ->Arg(0)
    ->Arg(95)
    ->Arg(99)
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Outside scans: range(1) places, p <= 0.01 counts.
void statistics_scan_false_alarms(benchmark::State& state) {
  count_runs(state, "of noise", 200, -1, [&](std::uint64_t seed) {
    ScanSeries series;
    series.value = autoregressive(state.range(1), rho_of(state), seed);
    for (std::int64_t i = 0; i < state.range(1); ++i) series.at.push_back(2.0 * static_cast<double>(i));
    return search_scan_period(series, seed).p <= 0.01;
  });
}
BENCHMARK(statistics_scan_false_alarms)
    ->ArgsProduct({{0, 80, 95, 99}, {52, 141}})
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Yes-or-no answers at range(0) places 4 apart, wrong at 12 of 64 tokens and one in twenty elsewhere; found within 2 tokens at p <= 0.01.
void statistics_scan_power(benchmark::State& state) {
  count_runs(state, "with dips of 12 in 64 tokens, step 4", 100, -1, [&](std::uint64_t seed) {
    ScanSeries series;
    RandomStream random(seed, "bench.scan");
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      series.at.push_back(4.0 * static_cast<double>(i));
      series.value.push_back(4 * i % 64 < 12 || random.uniform() < 0.05 ? 1 : 0);
    }
    const ScanPeriod found = search_scan_period(series, seed);
    return found.p <= 0.01 && std::abs(found.period - 64) <= 2;
  });
}
BENCHMARK(statistics_scan_power)
    ->Arg(32)
    ->Arg(48)
    ->Arg(64)
    ->Arg(96)
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Fisher's g on pre-whitened noise, p <= 0.01 counts.
void statistics_periodogram_false_alarms(benchmark::State& state) {
  count_runs(state, "of noise", 1000, 1, [&](std::uint64_t seed) {
    return search_periodogram(prewhitened(autoregressive(4096, rho_of(state), seed))).p <= 0.01;
  });
}
BENCHMARK(statistics_periodogram_false_alarms)
    ->Arg(0)
    ->Arg(95)
    ->Arg(99)
    ->Iterations(1)
    ->Repetitions(1)
    ->Unit(benchmark::kSecond);

/// Edge index (in percent) of random block keeps on a grid of 64; range(0): noise added, in percent of the jump.
void statistics_edge_index(benchmark::State& state) {
  RandomStream random(1, "bench.blocks");
  std::vector<double> mask;
  double lost = 0;
  for (int j = 0; j < 4096; ++j) {
    if (j % 64 == 0) lost = random.uniform() < 0.5 ? 1 : 0;
    mask.push_back(lost + static_cast<double>(state.range(0)) / 100 * random.normal());
  }
  double index = 0;
  for (auto _ : state) index = edge_index(squared_jumps({mask}), 64).index;
  state.counters["share_percent"] = 100 * index;
  state.counters["tabulated_percent"] = state.range(0) == 0 ? 100 : 28;
  state.SetLabel("index of a real grid");
}
BENCHMARK(statistics_edge_index)->Arg(0)->Arg(10)->Iterations(1)->Repetitions(1);

/// 99th percentile (in percent) of the edge index without a grid: token-level keeps.
void statistics_edge_index_without_grid(benchmark::State& state) {
  std::vector<double> indices;
  for (auto _ : state) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      RandomStream random(seed, "bench.tokens");
      std::vector<double> mask;
      for (int j = 0; j < 4096; ++j) mask.push_back(random.uniform() < 0.5 ? 1 : 0);
      indices.push_back(edge_index(squared_jumps({mask}), 64).index);
    }
  }
  std::sort(indices.begin(), indices.end());
  state.counters["share_percent"] = 100 * indices[indices.size() * 99 / 100];
  state.counters["tabulated_percent"] = 4;
  state.SetLabel("99th percentile, token keeps");
}
BENCHMARK(statistics_edge_index_without_grid)->Iterations(1)->Repetitions(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::loss
