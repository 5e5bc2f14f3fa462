#include "kv/compression/outliers.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {

namespace {

/// Mean and standard deviation of each column or row, each added up in the order of its elements.
struct VectorMoments {
  std::vector<double> centre;
  std::vector<double> deviation;
};

VectorMoments moments_of(const RowMatrix& values, bool by_column) {
  const auto num_vectors = static_cast<std::size_t>(by_column ? values.cols() : values.rows());
  const auto length = static_cast<double>(by_column ? values.rows() : values.cols());
  VectorMoments moments{std::vector<double>(num_vectors, 0.0), std::vector<double>(num_vectors, 0.0)};
  const float* next = values.data();
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    for (std::int64_t column = 0; column < values.cols(); ++column) {
      const auto vector = static_cast<std::size_t>(by_column ? column : row);
      const auto value = static_cast<double>(*next++);
      moments.centre[vector] += value;
      moments.deviation[vector] += value * value;
    }
  }
  for (std::size_t vector = 0; vector < num_vectors; ++vector) {
    double& centre = moments.centre[vector];
    centre /= length;
    moments.deviation[vector] = std::sqrt(std::max(moments.deviation[vector] / length - centre * centre, 1e-30));
  }
  return moments;
}

/// The `rank` largest distances; of equal ones the first elements.
std::vector<std::int64_t> farthest_elements(const std::vector<float>& distances, std::size_t rank) {
  std::vector<std::int64_t> farthest;
  if (rank == 0) return farthest;
  std::vector<float> sorted = distances;
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::ranges::nth_element(sorted, last, std::ranges::greater());
  const float least = *last;
  auto left_of_equal = static_cast<std::int64_t>(rank) -
                       std::count_if(sorted.begin(), last, [least](float distance) { return distance > least; });
  for (std::size_t element = 0; element < distances.size(); ++element) {
    const bool is_equal = distances[element] == least;
    if (distances[element] > least || (is_equal && left_of_equal > 0)) {
      farthest.push_back(static_cast<std::int64_t>(element));
      left_of_equal -= is_equal ? 1 : 0;
    }
  }
  return farthest;
}

}  // namespace

std::vector<Outlier> take_outliers(RowMatrix& values, GroupAxis axis, PartsPerMillion share) {
  const bool by_column = axis == GroupAxis::channel;
  const auto num_outliers = static_cast<std::size_t>(values.size() * share / 1'000'000);
  const VectorMoments moments = moments_of(values, by_column);
  const auto vector_of = [by_column](std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(by_column ? column : row);
  };
  std::vector<float> distances(static_cast<std::size_t>(values.size()));
  float* next = distances.data();
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    for (std::int64_t column = 0; column < values.cols(); ++column) {
      const std::size_t vector = vector_of(row, column);
      *next++ = static_cast<float>(std::abs(static_cast<double>(values(row, column)) - moments.centre[vector]) /
                                   moments.deviation[vector]);
    }
  }
  std::vector<Outlier> outliers;
  for (const std::int64_t element : farthest_elements(distances, num_outliers)) {
    const std::int64_t row = element / values.cols();
    const std::int64_t column = element % values.cols();
    outliers.push_back({row, column, static_cast<float>(static_cast<Eigen::half>(values(row, column)))});
    values(row, column) = static_cast<float>(moments.centre[vector_of(row, column)]);
  }
  return outliers;
}

void put_back(const std::vector<Outlier>& outliers, RowMatrix& values) {
  for (const Outlier& outlier : outliers) values(outlier.row, outlier.column) = outlier.value;
}

}  // namespace kvtide::kv
