#include "kv/compression/outliers.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {

std::vector<Outlier> take_outliers(RowMatrix& values, GroupAxis axis, PartsPerMillion share) {
  const bool by_column = axis == GroupAxis::channel;
  const std::int64_t num_vectors = by_column ? values.cols() : values.rows();
  const std::int64_t length = by_column ? values.rows() : values.cols();
  const auto num_outliers = static_cast<std::size_t>(values.size() * share / 1'000'000);
  struct Candidate {
    float distance = 0;
    std::int64_t element = 0;
  };
  std::vector<float> mean(static_cast<std::size_t>(num_vectors), 0.0F);
  std::vector<Candidate> candidates(static_cast<std::size_t>(values.size()));
  for (std::int64_t vector = 0; vector < num_vectors; ++vector) {
    const auto at = [&](std::int64_t index) { return by_column ? values(index, vector) : values(vector, index); };
    double sum = 0;
    double squares = 0;
    for (std::int64_t index = 0; index < length; ++index) {
      sum += static_cast<double>(at(index));
      squares += static_cast<double>(at(index)) * static_cast<double>(at(index));
    }
    const double centre = sum / static_cast<double>(length);
    const double deviation = std::sqrt(std::max(squares / static_cast<double>(length) - centre * centre, 1e-30));
    mean[static_cast<std::size_t>(vector)] = static_cast<float>(centre);
    for (std::int64_t index = 0; index < length; ++index) {
      const std::int64_t element = by_column ? index * values.cols() + vector : vector * values.cols() + index;
      candidates[static_cast<std::size_t>(element)] = {
          static_cast<float>(std::abs(static_cast<double>(at(index)) - centre) / deviation), element};
    }
  }
  const auto farther = [](const Candidate& left, const Candidate& right) {
    return left.distance != right.distance ? left.distance > right.distance : left.element < right.element;
  };
  if (num_outliers < candidates.size()) {
    std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(num_outliers), farther);
  }
  std::vector<Outlier> outliers;
  for (std::size_t index = 0; index < num_outliers; ++index) {
    const std::int64_t row = candidates[index].element / values.cols();
    const std::int64_t column = candidates[index].element % values.cols();
    outliers.push_back({row, column, static_cast<float>(static_cast<Eigen::half>(values(row, column)))});
    values(row, column) = mean[static_cast<std::size_t>(by_column ? column : row)];
  }
  return outliers;
}

void put_back(const std::vector<Outlier>& outliers, RowMatrix& values) {
  for (const Outlier& outlier : outliers) values(outlier.row, outlier.column) = outlier.value;
}

}  // namespace kvtide::kv
