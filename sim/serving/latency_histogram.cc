#include "serving/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvtide::serving {
namespace {

constexpr double kLeast = 1e-7, kMost = 1e7;  // s
constexpr double kWidth = 0.002;              // of a bin, natural logarithm

double middle(double bin) {
  return kLeast * std::exp((bin + 0.5) * kWidth);
}

}  // namespace

void LatencyHistogram::add(double seconds, std::int64_t count) {
  if (seconds != last_seconds_) {
    last_seconds_ = seconds;
    last_bin_ = static_cast<std::size_t>(std::log(std::clamp(seconds, kLeast, kMost) / kLeast) / kWidth);
    if (counts_.size() <= last_bin_) counts_.resize(last_bin_ + 1);
  }
  counts_[last_bin_] += count;
  count_ += count;
  sum_ += seconds * static_cast<double>(count);
  max_ = std::max(max_, seconds);
}

double LatencyHistogram::mean() const {
  return count_ > 0 ? sum_ / static_cast<double>(count_) : std::numeric_limits<double>::quiet_NaN();
}

double LatencyHistogram::quantile(double share) const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const double wanted = share * static_cast<double>(count_ - 1);  // index of an order statistic
  std::int64_t below = 0;
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
    below += counts_[bin];
    if (static_cast<double>(below) > wanted) return std::min(max_, middle(static_cast<double>(bin)));
  }
  return max_;
}

std::vector<LatencyHistogram::Bin> LatencyHistogram::bins(std::int64_t merged) const {
  std::vector<Bin> found;
  const auto width = static_cast<std::size_t>(merged);
  for (std::size_t first = 0; first < counts_.size(); first += width) {
    std::int64_t count = 0;
    for (std::size_t bin = first; bin < std::min(counts_.size(), first + width); ++bin) count += counts_[bin];
    if (count > 0) found.push_back({middle(static_cast<double>(first) + static_cast<double>(merged - 1) / 2), count});
  }
  return found;
}

}  // namespace kvtide::serving
