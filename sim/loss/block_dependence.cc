#include "loss/block_dependence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPermutations = 999;
constexpr double kPointsPerBlock = 4;
/// Places beyond this are not looked at: their steps would be a profile's, for which edge_grid.h has tests.
constexpr std::size_t kMostPlaces = 4096;

struct Crowding {
  double index = 0;
  double boundary = 0;
};

/// Of the squared steps, each at the first place behind it.
Crowding crowding(const std::vector<double>& at, const std::vector<double>& steps, double period) {
  double real = 0;
  double imaginary = 0;
  double sum = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double angle = 2 * std::numbers::pi * at[i] / period;
    real += steps[i] * std::cos(angle);
    imaginary += steps[i] * std::sin(angle);
    sum += steps[i];
  }
  if (!(sum > 0)) return {};
  const double turns = std::atan2(imaginary, real) / (2 * std::numbers::pi);
  return {std::hypot(real, imaginary) / sum, (turns < 0 ? turns + 1 : turns) * period};
}

void set_blocks(const OutsideScan& scan, double step, BlockDependence& result) {
  double mean = 0;
  for (const ScanPoint& point : scan.points) mean += point.loss / static_cast<double>(scan.points.size());
  double total = 0;
  double open_block = std::numeric_limits<double>::quiet_NaN();
  for (const ScanPoint& point : scan.points) {
    // The mean boundary may lie a little behind the first place of a block.
    const double block = std::floor((point.at - result.boundary + step / 2) / result.block_size);
    if (block != open_block) {
      open_block = block;
      result.blocks.push_back({point.at, 0, 0, 0});
    }
    BlockDependence::Block& one = result.blocks.back();
    one.mean_success += point.success;
    one.mean_loss += point.loss;
    ++one.places;
    total += (point.loss - mean) * (point.loss - mean);
  }
  double between = 0;
  for (BlockDependence::Block& one : result.blocks) {
    const auto n = static_cast<double>(one.places);
    one.mean_success /= n;
    one.mean_loss /= n;
    between += n * (one.mean_loss - mean) * (one.mean_loss - mean);
  }
  result.variance_share = total > 0 ? between / total : 0;
}

}  // namespace

BlockDependence find_block_dependence(const OutsideScan& scan, std::uint64_t seed) {
  BlockDependence result;
  const ScanSeries series = scan.losses();
  if (series.at.size() < kMinScanPoints || series.at.size() > kMostPlaces) return result;
  std::vector<double> periods;
  for (double period = 4; period <= series.extent() / 2; period *= 2) {
    if (period >= kPointsPerBlock * series.step()) periods.push_back(period);
  }
  if (periods.empty()) return result;
  const std::vector<double> at(series.at.begin() + 1, series.at.end());
  std::vector<double> steps;
  double sum = 0;
  for (std::size_t i = 1; i < series.value.size(); ++i) {
    const double step = series.value[i] - series.value[i - 1];
    steps.push_back(step * step);
    sum += steps.back();
  }
  if (!(sum > 0)) return result;

  // [row][period] indices, row 0 the scan's.
  std::vector<std::vector<double>> rows;
  RandomStream random(seed, "loss.block_dependence");
  std::vector<double> shuffled = steps;
  for (std::int64_t row = 0; row <= kPermutations; ++row) {
    if (row > 0) {
      for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
    }
    std::vector<double> indices;
    for (const double period : periods) indices.push_back(crowding(at, shuffled, period).index);
    rows.push_back(std::move(indices));
  }
  std::vector<double> best(rows.size(), -1e300);
  std::size_t place = 0;
  for (std::size_t c = 0; c < periods.size(); ++c) {
    double mean = 0;
    double squares = 0;
    for (std::size_t row = 1; row < rows.size(); ++row) {
      mean += rows[row][c] / static_cast<double>(kPermutations);
      squares += rows[row][c] * rows[row][c] / static_cast<double>(kPermutations);
    }
    const double sd = std::sqrt(std::max(1e-18, squares - mean * mean));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const double score = (rows[row][c] - mean) / sd;
      if (score <= best[row]) continue;
      best[row] = score;
      if (row == 0) place = c;
    }
  }
  std::int64_t as_crowded = 0;
  for (const double score : best) as_crowded += score >= best[0] - 1e-12 ? 1 : 0;
  result.p = static_cast<double>(as_crowded) / static_cast<double>(rows.size());
  result.block_size = periods[place];
  const Crowding crowd = crowding(at, steps, result.block_size);
  result.edge_index = crowd.index;
  result.boundary = std::fmod(std::round(crowd.boundary), result.block_size);
  set_blocks(scan, series.step(), result);
  return result;
}

}  // namespace kvtide::loss
