#include "kv/compression/outliers.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/vector_width.h"
#include "kv/compression/lanes.h"

namespace kvtide::kv {

namespace {

/// Mean and standard deviation of each column or row, each added up in the order of its elements.
struct VectorMoments {
  std::vector<double> centre;
  std::vector<double> deviation;
};

KVTIDE_EVERY_VECTOR_WIDTH
void add_columns(const float* values, std::int64_t num_rows, std::int64_t num_columns, double* __restrict__ sums,
                 double* __restrict__ squares) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* of_row = values + row * num_columns;
    for (std::int64_t column = 0; column < num_columns; ++column) {
      const auto value = static_cast<double>(of_row[column]);
      sums[column] += value;
      squares[column] += value * value;
    }
  }
}

/// Sixteen rows side by side, so that each is added up in its order.
KVTIDE_EVERY_VECTOR_WIDTH
void add_rows(const float* values, std::int64_t num_rows, std::int64_t num_columns, double* __restrict__ sums,
              double* __restrict__ squares) {
  const std::int64_t whole_columns = num_columns / kNumLanes * kNumLanes;
  for (std::int64_t first = 0; first < num_rows; first += kNumLanes) {
    const std::int64_t count = std::min(kNumLanes, num_rows - first);
    const float* of_rows = values + first * num_columns;
    double sum[kNumLanes] = {};
    double square[kNumLanes] = {};
    for (std::int64_t column = 0; column < whole_columns; column += kNumLanes) {
      Lanes rows[kNumLanes] = {};
      for (std::int64_t row = 0; row < count; ++row) load(of_rows + row * num_columns + column, rows[row]);
      transpose(rows);
      for (std::int64_t index = 0; index < kNumLanes; ++index) {
        float of_column[kNumLanes];
        store(rows[index], of_column);
        for (std::int64_t row = 0; row < kNumLanes; ++row) {
          const auto value = static_cast<double>(of_column[row]);
          sum[row] += value;
          square[row] += value * value;
        }
      }
    }
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t column = whole_columns; column < num_columns; ++column) {
        const auto value = static_cast<double>(of_rows[row * num_columns + column]);
        sum[row] += value;
        square[row] += value * value;
      }
      sums[first + row] = sum[row];
      squares[first + row] = square[row];
    }
  }
}

/// @param centre, deviation  of the vector that each value of the row belongs to; `is_one`: the first, for all of them
KVTIDE_EVERY_VECTOR_WIDTH
void measure_row(const float* values, std::int64_t count, const double* centre, const double* deviation, bool is_one,
                 float* distances) {
  if (is_one) {
    const double of_row = *centre;
    const double unit = *deviation;
    for (std::int64_t i = 0; i < count; ++i) {
      distances[i] = static_cast<float>(__builtin_fabs(static_cast<double>(values[i]) - of_row) / unit);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    distances[i] = static_cast<float>(__builtin_fabs(static_cast<double>(values[i]) - centre[i]) / deviation[i]);
  }
}

VectorMoments moments_of(const RowMatrix& values, bool by_column) {
  const auto num_vectors = static_cast<std::size_t>(by_column ? values.cols() : values.rows());
  const auto length = static_cast<double>(by_column ? values.rows() : values.cols());
  VectorMoments moments{std::vector<double>(num_vectors, 0.0), std::vector<double>(num_vectors, 0.0)};
  (by_column ? add_columns : add_rows)(values.data(), values.rows(), values.cols(), moments.centre.data(),
                                       moments.deviation.data());
  for (std::size_t vector = 0; vector < num_vectors; ++vector) {
    double& centre = moments.centre[vector];
    centre /= length;
    moments.deviation[vector] = std::sqrt(std::max(moments.deviation[vector] / length - centre * centre, 1e-30));
  }
  return moments;
}

/// Numbers that are not negative in the order of their bits, of which the upper ones choose a bin.
constexpr unsigned kBinShift = 18;
std::uint32_t bin_of(float distance) {
  return std::bit_cast<std::uint32_t>(distance) >> kBinShift;
}

/// Elements of which at least `rank` are in the highest bins, as few bins as hold so many.
std::vector<std::int64_t> candidates_of(const std::vector<float>& distances, std::size_t rank) {
  std::vector<std::uint32_t> num_in_bin(std::size_t{1} << (32 - kBinShift), 0);
  for (const float distance : distances) ++num_in_bin[bin_of(distance)];
  std::size_t least = num_in_bin.size();
  for (std::size_t held = 0; held < rank; held += num_in_bin[least]) --least;
  std::vector<std::int64_t> candidates;
  for (std::size_t element = 0; element < distances.size(); ++element) {
    if (bin_of(distances[element]) >= least) candidates.push_back(static_cast<std::int64_t>(element));
  }
  return candidates;
}

/// The `rank` largest distances; of equal ones the first elements.
std::vector<std::int64_t> farthest_elements(const std::vector<float>& distances, std::size_t rank) {
  std::vector<std::int64_t> farthest;
  if (rank == 0) return farthest;
  const auto distance_of = [&](std::int64_t element) { return distances[static_cast<std::size_t>(element)]; };
  const std::vector<std::int64_t> candidates = candidates_of(distances, rank);
  std::vector<float> sorted;
  for (const std::int64_t element : candidates) sorted.push_back(distance_of(element));
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::ranges::nth_element(sorted, last, std::ranges::greater());
  const float least = *last;
  auto left_of_equal = static_cast<std::int64_t>(rank) -
                       std::count_if(sorted.begin(), last, [least](float distance) { return distance > least; });
  for (const std::int64_t element : candidates) {
    const bool is_equal = distance_of(element) == least;
    if (distance_of(element) > least || (is_equal && left_of_equal > 0)) {
      farthest.push_back(element);
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
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    const std::size_t first = by_column ? 0 : static_cast<std::size_t>(row);
    measure_row(values.row(row).data(), values.cols(), moments.centre.data() + first, moments.deviation.data() + first,
                !by_column, distances.data() + row * values.cols());
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
