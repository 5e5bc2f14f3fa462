#include "kv/compression/merged_values.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"

namespace kvtide::kv {
namespace {

constexpr float kSmallest = 1e-6F;

RowMatrix directions(const RowMatrix& keys, const std::vector<std::int64_t>& positions) {
  RowMatrix result(static_cast<std::int64_t>(positions.size()), keys.cols());
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const auto key = keys.row(positions[row]);
    result.row(static_cast<std::int64_t>(row)) = key / std::max(key.norm(), kSmallest);
  }
  return result;
}

/// The `share`-quantile with linear interpolation between neighbours.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

}  // namespace

NearestKept nearest_kept(const HeadTensors& head, std::int64_t num_positions, const std::vector<std::int64_t>& kept) {
  NearestKept nearest;
  for (std::int64_t position = 0; position < num_positions; ++position) {
    if (!std::ranges::binary_search(kept, position)) nearest.evicted.push_back(position);
  }
  nearest.target.resize(nearest.evicted.size());
  nearest.likeness.resize(nearest.evicted.size());
  const RowMatrix targets = directions(head.k_post, kept);
  const RowMatrix sources = directions(head.k_post, nearest.evicted);
  constexpr std::int64_t kRowsAtOnce = 128;
  for (std::int64_t first = 0; first < sources.rows(); first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, sources.rows() - first);
    const RowMatrix cosines = row_products(sources.middleRows(first, count), targets);
    for (std::int64_t row = 0; row < count; ++row) {
      Eigen::Index best = 0;
      nearest.likeness[static_cast<std::size_t>(first + row)] = static_cast<double>(cosines.row(row).maxCoeff(&best));
      nearest.target[static_cast<std::size_t>(first + row)] = best;
    }
  }
  return nearest;
}

RowMatrix merged_values(const HeadTensors& head, std::int64_t num_positions, const std::vector<std::int64_t>& kept,
                        const MergeRule& rule) {
  RowMatrix values(static_cast<std::int64_t>(kept.size()), head.head_dim());
  for (std::size_t row = 0; row < kept.size(); ++row) {
    values.row(static_cast<std::int64_t>(row)) = head.v.row(kept[row]);
  }
  if (kept.empty() || std::ssize(kept) == num_positions) return values;
  const auto [evicted, target, likeness] = nearest_kept(head, num_positions, kept);
  double lowest = rule.similarity_threshold;
  if (rule.merge_fraction < 1) lowest = std::max(lowest, quantile(likeness, 1 - rule.merge_fraction));
  RowMatrix sums = RowMatrix::Zero(values.rows(), values.cols());
  Eigen::VectorXf weights = Eigen::VectorXf::Zero(values.rows());
  for (std::size_t index = 0; index < evicted.size(); ++index) {
    if (likeness[index] < lowest) continue;
    const auto value = head.v.row(evicted[index]);
    const float own = value.norm();
    const float weight =
        static_cast<float>(std::max(likeness[index], 0.0)) * own / (own + values.row(target[index]).norm() + kSmallest);
    sums.row(target[index]) += weight * value;
    weights[target[index]] += weight;
  }
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    if (weights[row] > 0) values.row(row) = (values.row(row) + sums.row(row)) / (1 + weights[row]);
  }
  return values;
}

}  // namespace kvtide::kv
