#include "kv/compression/neighbour_merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvtide::kv {
namespace {

double cosine(const RowMatrix& keys, std::int64_t first, std::int64_t second) {
  const Eigen::RowVectorXd a = keys.row(first).cast<double>();
  const Eigen::RowVectorXd b = keys.row(second).cast<double>();
  const double lengths = a.norm() * b.norm();
  return lengths > 0 ? a.dot(b) / lengths : 0.0;
}

}  // namespace

std::vector<NeighbourSet> neighbour_sets(const HeadTensors& head, const PositionRuns& evicted,
                                         const std::vector<std::int64_t>& kept, double similarity) {
  std::vector<NeighbourSet> sets(kept.size());
  constexpr double kNobody = -std::numeric_limits<double>::infinity();
  for (const PositionRun& run : evicted) {
    const auto after =
        static_cast<std::size_t>(std::ranges::lower_bound(kept, run.begin) - kept.begin());  // the kept one behind
    // Of each position with the one before it, and of the one behind the gap with its last.
    std::vector<double> links;
    for (std::int64_t position = run.begin; position <= run.end; ++position) {
      const bool is_open = (position == run.begin && after == 0) || (position == run.end && after == kept.size());
      links.push_back(is_open ? kNobody : cosine(head.k_post, position - 1, position));
    }
    const auto is_weak = [&](double link) { return link < similarity; };
    auto first_weak = std::ranges::find_if(links, is_weak);
    auto last_weak = std::find_if(links.rbegin(), links.rend(), is_weak).base();
    if (first_weak == links.end()) {
      first_weak = std::ranges::min_element(links);
      last_weak = first_weak + 1;
    }
    const std::int64_t before_end = run.begin + (first_weak - links.begin());
    const std::int64_t behind_begin = run.begin + (last_weak - links.begin()) - 1;
    for (std::int64_t position = run.begin; position < before_end; ++position) sets[after - 1].push_back(position);
    for (std::int64_t position = behind_begin; position < run.end; ++position) sets[after].push_back(position);
  }
  return sets;
}

std::vector<double> gaussian_weights(const RowMatrix& keys, std::int64_t position, const NeighbourSet& members) {
  std::vector<double> weights;
  double sum = 0;
  for (const std::int64_t member : members) {
    weights.push_back((keys.row(position) - keys.row(member)).cast<double>().norm());
    sum += weights.back();
  }
  const double scale = sum / static_cast<double>(std::max<std::size_t>(members.size(), 1));
  for (double& weight : weights) weight = scale > 0 ? std::exp(-weight * weight / (2 * scale * scale)) : 1.0;
  return weights;
}

}  // namespace kvtide::kv
