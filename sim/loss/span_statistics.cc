#include "loss/span_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace kvtide::loss {
namespace {

double weighted_mean(std::span<const double> loss, std::span<const double> attention) {
  double sum = 0;
  double weight = 0;
  double plain = 0;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    plain += loss[j];
    if (attention.empty()) continue;
    sum += attention[j] * loss[j];
    weight += attention[j];
  }
  if (weight > 0) return sum / weight;
  return loss.empty() ? 0 : plain / static_cast<double>(loss.size());
}

/// Looks at one run of unprotected positions [begin, end).
void visit_run(std::span<const double> loss, std::size_t begin, std::size_t end, std::size_t span,
               SpanStatistics& result) {
  const std::size_t width = std::min(span, end - begin);
  for (std::size_t first = begin; first + width <= end; ++first) {
    double sum = 0;
    for (std::size_t j = first; j < first + width; ++j) sum += loss[j];
    const double mean = sum / static_cast<double>(width);
    if (result.worst_begin < 0 || mean > result.worst) {
      result.worst = mean;
      result.worst_begin = static_cast<std::int64_t>(first);
    }
  }
  std::int64_t lost = 0;
  for (std::size_t j = begin; j < end; ++j) {
    lost = loss[j] > 0.5 ? lost + 1 : 0;
    result.longest_lost_run = std::max(result.longest_lost_run, lost);
  }
}

}  // namespace

SpanStatistics span_statistics(std::span<const double> loss, std::span<const double> attention,
                               std::span<const std::uint8_t> is_protected, std::int64_t span) {
  KVTIDE_ASSERT(attention.empty() || attention.size() == loss.size(), "one attention weight a position");
  KVTIDE_ASSERT(is_protected.empty() || is_protected.size() == loss.size(), "one protection flag a position");
  if (span < 1) throw InputError("loss.span: expected a number of tokens from 1, got " + std::to_string(span));
  SpanStatistics result;
  result.mean = weighted_mean(loss, attention);
  std::vector<double> open;
  std::size_t begin = 0;
  for (std::size_t j = 0; j <= loss.size(); ++j) {
    const bool closes = j == loss.size() || (!is_protected.empty() && is_protected[j] != 0);
    if (!closes) {
      open.push_back(loss[j]);
      continue;
    }
    if (j > begin) visit_run(loss, begin, j, static_cast<std::size_t>(span), result);
    begin = j + 1;
  }
  result.cvar05 = conditional_value_at_risk(std::move(open), 0.05);
  result.worst_over_mean = result.mean > 0 ? result.worst / result.mean : std::numeric_limits<double>::quiet_NaN();
  return result;
}

double split_rate(std::span<const double> loss, std::span<const std::uint8_t> is_protected, std::int64_t span) {
  std::int64_t lost = 0;
  std::int64_t length = 0;
  std::int64_t split = 0;
  std::int64_t spans = 0;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    if (!is_protected.empty() && is_protected[j] != 0) {
      lost = 0;
      length = 0;
      continue;
    }
    lost += loss[j] > 0.5 ? 1 : 0;
    if (++length < span) continue;
    if (length > span) {
      lost -= loss[j - static_cast<std::size_t>(span)] > 0.5 ? 1 : 0;
    }
    ++spans;
    split += lost > 0 && lost < span ? 1 : 0;
  }
  return spans > 0 ? static_cast<double>(split) / static_cast<double>(spans) : 0;
}

double conditional_value_at_risk(std::vector<double> values, double tail) {
  if (values.empty()) return 0;
  const double mass = tail * static_cast<double>(values.size());
  std::sort(values.begin(), values.end(), std::greater<>());
  double left = mass;
  double sum = 0;
  for (const double value : values) {
    const double share = std::min(1.0, left);
    if (share <= 0) break;
    sum += share * value;
    left -= share;
  }
  return sum / mass;
}

double position_stability(std::span<const double> success, std::int64_t repeats) {
  if (success.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(success.size());
  double mean = 0;
  for (const double s : success) mean += s / count;
  double variance = 0;
  double chance = 0;
  for (const double s : success) {
    variance += (s - mean) * (s - mean) / count;
    chance += s * (1 - s) / count;
  }
  const double spread = mean * (1 - mean);
  if (spread <= 1e-15) return 1;
  const double noise = repeats > 1 ? chance / static_cast<double>(repeats - 1) : 0.0;
  return 1 - std::sqrt(std::min(1.0, std::max(0.0, variance - noise) / spread));
}

}  // namespace kvtide::loss
