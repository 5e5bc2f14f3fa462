#include "loss/spectral_search.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>

namespace kvtide::loss {
namespace {

constexpr std::size_t kFewest = 8;
constexpr double kTurn = 2 * std::numbers::pi;
/// Work of an uneven search: beyond it the frequencies are taken further apart.
constexpr double kMostFrequencies = 20'000;

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Share of variance explained by a wave of this frequency and a mean (Zechmeister and Kuerster, A&A 496, 2009, equations 4 to 15).
double wave_power(std::span<const double> at, std::span<const double> centred, double squares, double frequency) {
  double c = 0;
  double s = 0;
  double cc = 0;
  double cs = 0;
  double yc = 0;
  double ys = 0;
  const auto n = static_cast<double>(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double angle = kTurn * frequency * (at[i] - at.front());
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    c += cosine / n;
    s += sine / n;
    cc += cosine * cosine / n;
    cs += cosine * sine / n;
    yc += centred[i] * cosine / n;
    ys += centred[i] * sine / n;
  }
  const double ss = 1 - cc - s * s;
  cc -= c * c;
  cs -= c * s;
  const double determinant = cc * ss - cs * cs;
  if (!(determinant > 1e-12)) return 0;
  const double explained = (ss * yc * yc + cc * ys * ys - 2 * cs * yc * ys) / determinant;
  return std::clamp(explained / (squares / n), 0.0, 1.0);
}

}  // namespace

std::vector<double> prewhitened(std::span<const double> values) {
  const double mean = mean_of(values);
  double lagged = 0;
  double squares = 0;
  for (std::size_t j = 1; j < values.size(); ++j) {
    lagged += (values[j] - mean) * (values[j - 1] - mean);
    squares += (values[j - 1] - mean) * (values[j - 1] - mean);
  }
  const double rho = squares > 0 ? std::clamp(lagged / squares, -0.999, 0.999) : 0;
  std::vector<double> result;
  for (std::size_t j = 1; j < values.size(); ++j) result.push_back(values[j] - mean - rho * (values[j - 1] - mean));
  return result;
}

double fisher_g_p(double g, std::int64_t lines) {
  if (lines < 1 || g <= 0) return 1;
  const auto m = static_cast<double>(lines);
  if (g <= 1 / m) return 1;  // the largest of m shares is never below 1 / m
  double sum = 0;
  double log_choose = 0;
  for (double k = 1; k <= m && k * g < 1; ++k) {
    log_choose += std::log((m - k + 1) / k);
    const double term = std::exp(log_choose + (m - 1) * std::log1p(-k * g));
    sum += std::fmod(k, 2) == 1 ? term : -term;
    // Alternating terms first grow and then cancel where p is near 1; what is left of doubles then is no figure.
    if (term > 1e6) return 1;
    if (term < 1e-18) break;
  }
  return std::clamp(sum, 0.0, 1.0);
}

SpectralLine search_periodogram(std::span<const double> values) {
  SpectralLine line;
  const std::size_t n = values.size();
  if (n < kFewest) return line;
  const double mean = mean_of(values);
  std::vector<double> centred;
  for (const double value : values) centred.push_back(value - mean);
  Eigen::FFT<double> fft;
  std::vector<std::complex<double>> spectrum;
  fft.fwd(spectrum, centred);
  const std::size_t lines = (n - 1) / 2;
  double sum = 0;
  double best = 0;
  std::size_t place = 0;
  for (std::size_t k = 1; k <= lines; ++k) {
    const double power = std::norm(spectrum[k]);
    sum += power;
    if (power > best) {
      best = power;
      place = k;
    }
  }
  line.lines = static_cast<std::int64_t>(lines);
  if (!(sum > 0)) return line;
  line.period = static_cast<double>(n) / static_cast<double>(place);
  line.power = best / sum;
  line.p = fisher_g_p(line.power, line.lines);
  return line;
}

double baluev_p(double z, std::int64_t points, double variance_of_at, double highest) {
  const auto n = static_cast<double>(points);
  if (points < 4 || z <= 0) return 1;
  if (z >= 1) return 0;
  const double single = std::pow(1 - z, 0.5 * (n - 3));
  // ln of sqrt(2 / N) Gamma(N / 2) / Gamma((N - 1) / 2), which tends to 0.
  const double gamma = 0.5 * std::log(2 / n) + std::lgamma(n / 2) - std::lgamma((n - 1) / 2);
  const double width = highest * std::sqrt(4 * std::numbers::pi * variance_of_at);
  const double tau = std::exp(gamma) * width * std::pow(1 - z, 0.5 * (n - 4)) * std::sqrt(0.5 * (n - 1) * z);
  return 1 - (1 - single) * std::exp(-tau);
}

SpectralLine search_lomb_scargle(std::span<const double> at, std::span<const double> values, double shortest) {
  SpectralLine line;
  const std::size_t n = at.size();
  if (n < kFewest || !(shortest > 0)) return line;
  const double extent = at.back() - at.front();
  const double highest = 1 / shortest;
  const double lowest = 1 / extent;
  if (highest <= lowest) return line;
  const double mean = mean_of(values);
  std::vector<double> centred;
  double squares = 0;
  for (const double value : values) {
    centred.push_back(value - mean);
    squares += (value - mean) * (value - mean);
  }
  if (!(squares > 0)) return line;
  constexpr double kOversampling = 5;
  const double count = std::min(kMostFrequencies, std::ceil((highest - lowest) * extent * kOversampling));
  line.lines = static_cast<std::int64_t>(count) + 1;
  for (std::int64_t i = 0; i < line.lines; ++i) {
    const double frequency = lowest + (highest - lowest) * static_cast<double>(i) / count;
    const double power = wave_power(at, centred, squares, frequency);
    if (power > line.power) {
      line.power = power;
      line.period = 1 / frequency;
    }
  }
  const double mean_at = mean_of(at);
  double variance = 0;
  for (const double place : at) variance += (place - mean_at) * (place - mean_at) / static_cast<double>(n);
  line.p = baluev_p(line.power, static_cast<std::int64_t>(n), variance, highest);
  return line;
}

}  // namespace kvtide::loss
