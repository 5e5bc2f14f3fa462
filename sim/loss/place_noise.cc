#include "loss/place_noise.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <vector>

namespace kvtide::loss {
namespace {

constexpr double kSure = 0.01;
constexpr double kSmallestFall = 0.1;
/// Expected success is kept this far from 0 and 1: there a single answer would decide the sum.
constexpr double kEdge = 0.05;

/// Probability of more than `value` under a law.
template <typename Law>
double upper_tail(const Law& law, double value) {
  return boost::math::cdf(boost::math::complement(law, value));
}

}  // namespace

bool PlaceNoise::is_trend() const {
  return trend_p <= kSure && std::abs(last - first) >= kSmallestFall;
}

bool PlaceNoise::differs() const {
  return std::min(serial_p, dispersion_p) <= kSure / 2;
}

PlaceNoise place_noise(const OutsideScan& scan) {
  PlaceNoise result;
  const std::size_t places = scan.points.size();
  if (places < kMinScanPoints) return result;
  const auto k = static_cast<double>(places);
  double mean_at = 0;
  double mean = 0;
  for (const ScanPoint& point : scan.points) {
    mean_at += point.at / k;
    mean += point.success / k;
  }
  double at_squares = 0;
  double squares = 0;
  double products = 0;
  for (const ScanPoint& point : scan.points) {
    at_squares += (point.at - mean_at) * (point.at - mean_at);
    squares += (point.success - mean) * (point.success - mean);
    products += (point.at - mean_at) * (point.success - mean);
  }
  result.first = result.last = mean;
  if (!(squares > 1e-12 * k)) return result;
  const double slope = products / at_squares;
  result.first = mean + slope * (scan.points.front().at - mean_at);
  result.last = mean + slope * (scan.points.back().at - mean_at);
  const double correlation = products / std::sqrt(at_squares * squares);
  result.trend_p = 2 * upper_tail(boost::math::normal(), std::abs(correlation) * std::sqrt(k - 1));

  std::vector<double> rest;
  double rest_squares = 0;
  double neighbours = 0;
  double dispersion = 0;
  for (const ScanPoint& point : scan.points) {
    const double line = mean + slope * (point.at - mean_at);
    rest.push_back(point.success - line);
    rest_squares += rest.back() * rest.back();
    if (rest.size() > 1) neighbours += rest.back() * rest[rest.size() - 2];
    const double expected = std::clamp(line, kEdge, 1 - kEdge);
    dispersion += static_cast<double>(point.repeats) * (point.success - expected) * (point.success - expected) /
                  (expected * (1 - expected));
  }
  if (rest_squares > 1e-12 * k)
    result.serial_p = upper_tail(boost::math::normal(), neighbours / rest_squares * std::sqrt(k));
  if (scan.measure == ScanMeasure::correct && scan.repeats > 1) {
    result.dispersion_p = upper_tail(boost::math::chi_squared(k - 2), dispersion);
  }
  return result;
}

}  // namespace kvtide::loss
