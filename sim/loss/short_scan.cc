#include "loss/short_scan.h"

#include <algorithm>
#include <complex>
#include <numeric>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "base/random.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kSurrogates = 499;
/// So many better surrogates settle that there is nothing (sequential test, Besag and Clifford, Biometrika 1991).
constexpr std::int64_t kEnough = 10;
/// Longer profiles are not searched: 500 transforms of them take too long.
constexpr std::size_t kMaxValues = 1 << 15;

struct Best {
  std::int64_t lag = 0;
  double agreement = -1;
};

/// Best agreement over lags, all autocovariances by one FFT.
Best best_lag(const std::vector<double>& centred, std::int64_t min_lag, std::int64_t max_lag, Eigen::FFT<double>& fft) {
  const std::size_t n = centred.size();
  std::size_t size = 1;
  while (size < 2 * n) size *= 2;
  std::vector<double> padded(centred);
  padded.resize(size, 0.0);
  std::vector<std::complex<double>> spectrum;
  fft.fwd(spectrum, padded);
  for (auto& line : spectrum) line = std::norm(line);
  fft.inv(padded, spectrum);
  std::vector<double> squares(n + 1, 0.0);
  for (std::size_t j = 0; j < n; ++j) squares[j + 1] = squares[j] + centred[j] * centred[j];
  Best best;
  if (!(squares[n] > 0)) return best;
  for (std::int64_t lag = min_lag; lag <= max_lag; ++lag) {
    const auto l = static_cast<std::size_t>(lag);
    // Both halves of the overlap: MSD = (sum of squares of each - 2 covariance) / count.
    const double both = squares[n - l] + (squares[n] - squares[l]);
    const double agreement = both > 1e-9 * squares[n] ? 2 * padded[l] / both : 0.0;
    if (agreement > best.agreement) best = {lag, agreement};
  }
  return best;
}

/// Takes a straight line away.
std::vector<double> without_line(std::span<const double> profile) {
  const auto n = static_cast<double>(profile.size());
  double mean = 0;
  double slope = 0;
  double spread = 0;
  for (const double value : profile) mean += value / n;
  const double middle = (n - 1) / 2;
  for (std::size_t j = 0; j < profile.size(); ++j) {
    const double x = static_cast<double>(j) - middle;
    slope += x * (profile[j] - mean);
    spread += x * x;
  }
  slope = spread > 0 ? slope / spread : 0;
  std::vector<double> result(profile.begin(), profile.end());
  for (std::size_t j = 0; j < result.size(); ++j) result[j] -= mean + slope * (static_cast<double>(j) - middle);
  return result;
}

}  // namespace

double agreement_without_best_pairs(std::span<const double> profile, std::int64_t lag, std::size_t count) {
  const auto apart = static_cast<std::size_t>(lag);
  if (profile.size() <= apart + count) return 0;
  const std::vector<double> centred = without_line(profile);
  std::vector<std::size_t> pairs(profile.size() - apart);
  std::iota(pairs.begin(), pairs.end(), std::size_t{0});
  const auto product = [&](std::size_t j) { return centred[j] * centred[j + apart]; };
  const auto rest = pairs.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(pairs.begin(), rest, pairs.end(),
                   [&](std::size_t a, std::size_t b) { return product(a) > product(b); });
  double products = 0;
  double both = 0;
  for (auto pair = rest; pair != pairs.end(); ++pair) {
    products += product(*pair);
    both += centred[*pair] * centred[*pair] + centred[*pair + apart] * centred[*pair + apart];
  }
  return both > 0 ? 2 * products / both : 0;
}

ShortScan search_short_scan(std::span<const double> profile, std::int64_t min_period, std::int64_t max_period,
                            std::uint64_t seed) {
  ShortScan result;
  const std::size_t n = profile.size();
  min_period = std::max<std::int64_t>(min_period, 2);
  max_period = std::min(max_period, static_cast<std::int64_t>(n) / 2);
  if (n < 8 || n > kMaxValues || max_period < min_period) return result;
  const std::vector<double> centred = without_line(profile);
  Eigen::FFT<double> fft;
  const Best observed = best_lag(centred, min_period, max_period, fft);
  if (observed.lag == 0 || observed.agreement <= 0) return result;
  result.period = observed.lag;
  result.agreement = observed.agreement;

  double lagged = 0;
  double squares = 0;
  for (std::size_t j = 1; j < n; ++j) {
    lagged += centred[j] * centred[j - 1];
    squares += centred[j - 1] * centred[j - 1];
  }
  const double rho = squares > 0 ? std::clamp(lagged / squares, -0.999, 0.999) : 0;
  std::vector<double> innovations;
  for (std::size_t j = 1; j < n; ++j) innovations.push_back(centred[j] - rho * centred[j - 1]);
  RandomStream random(seed, "loss.short_scan");
  std::int64_t as_good = 0;
  std::vector<double> surrogate(n);
  for (std::int64_t i = 0; i < kSurrogates; ++i) {
    double value = centred[random.below(n)];
    for (double& cell : surrogate) {
      cell = value;
      value = rho * value + innovations[random.below(innovations.size())];
    }
    const Best chance = best_lag(without_line(surrogate), min_period, max_period, fft);
    ++result.surrogates;
    if (chance.agreement >= observed.agreement && ++as_good == kEnough) {
      result.p = static_cast<double>(as_good) / static_cast<double>(result.surrogates);
      return result;
    }
  }
  result.p = static_cast<double>(as_good + 1) / static_cast<double>(kSurrogates + 1);
  return result;
}

}  // namespace kvtide::loss
