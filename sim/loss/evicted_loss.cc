#include "loss/evicted_loss.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/vector_width.h"
#include "kv/compression/dot_products.h"
#include "loss/bits_lost.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute (as in loss_meter.cc).
constexpr double kSmallestOutput = 1e-12;
/// Below this share of attention kept, u - m o has lost too many of float32's digits: what stays is summed instead.
constexpr double kSmallestKept = 0.02;
/// Positions summed in float32 before float64 takes over.
constexpr std::size_t kTermsAtOnce = 256;

std::vector<std::int64_t> evicted_positions(const kv::EntryTable& table) {
  std::vector<std::int64_t> positions;
  for (std::size_t position = 0; position < table.entry_of.size(); ++position) {
    if (table.entry_of[position] < 0) positions.push_back(static_cast<std::int64_t>(position));
  }
  return positions;
}

/// Rows at the given positions, one behind the other.
void gather(const kv::RowMatrix& rows, std::span<const std::int64_t> positions, float* gathered) {
  for (const std::int64_t position : positions)
    gathered = std::copy_n(rows.row(position).data(), rows.cols(), gathered);
}

/// sum over the evicted of a_ij and a_ij v_j, [row] and [row, channel].
struct LostSums {
  Eigen::VectorXd mass;
  DoubleMatrix outputs;
};

LostSums lost_sums(const HeadReference& reference, std::span<const std::int64_t> evicted) {
  const std::int64_t rows = reference.num_rows();
  const std::int64_t channels = reference.v.cols();
  LostSums sums{Eigen::VectorXd::Zero(rows), DoubleMatrix::Zero(rows, channels)};
  kv::RowMatrix weights(kTermsAtOnce, rows);
  kv::RowMatrix values(kTermsAtOnce, channels);
  kv::RowMatrix part(rows, channels);
  Eigen::RowVectorXf mass(rows);
  for (; !evicted.empty(); evicted = evicted.subspan(std::min(kTermsAtOnce, evicted.size()))) {
    const auto some = evicted.first(std::min(kTermsAtOnce, evicted.size()));
    gather(reference.weights_by_position, some, weights.data());
    gather(reference.v, some, values.data());
    const auto count = std::ssize(some);
    kv::matrix_product({weights.data(), 1, rows}, rows, count, values.data(), channels, part.data());
    sums.outputs += part.cast<double>();
    mass = weights.topRows(count).colwise().sum();
    sums.mass += mass.transpose().cast<double>();
  }
  return sums;
}

/// ohat of a row summed over what stays, where nearly nothing does.
Eigen::RowVectorXd output_of_kept(const HeadReference& reference, const kv::EntryTable& table, std::int64_t row) {
  double mass = 0;
  Eigen::RowVectorXd output = Eigen::RowVectorXd::Zero(reference.v.cols());
  for (std::int64_t position = 0; position < reference.num_positions(); ++position) {
    if (table.entry_of[static_cast<std::size_t>(position)] < 0) continue;
    const double weight = reference.weights(row, position);
    mass += weight;
    output += weight * reference.v.row(position).cast<double>();
  }
  if (mass > 0) output /= mass;
  return output;
}

/// What C and C+ need of each row, [row] or [row, channel].
struct RowTerms {
  kv::RowMatrix vectors;       ///< [2 rows, channel] f_i e_i, then f_i ohat_i
  std::vector<float> along;    ///< f_i <ohat_i, e_i>
  std::vector<float> factor;   ///< f_i
  std::vector<float> squared;  ///< f_i |ohat_i|^2
};

/// Adds E and E^2. A row that sees none of the evicted positions has no error.
RowTerms row_terms(const HeadReference& reference, const kv::EntryTable& table, std::span<const std::int64_t> evicted,
                   HeadLoss& loss) {
  const std::int64_t rows = reference.num_rows();
  const double row_weight = 1.0 / static_cast<double>(rows);
  const LostSums lost = lost_sums(reference, evicted);
  RowTerms terms{kv::RowMatrix(2 * rows, reference.v.cols()), {}, {}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const Eigen::RowVectorXd full = reference.outputs.row(row);
    loss.lost_of_row[static_cast<std::size_t>(row)] = lost.mass(row);
    const double kept = 1 - lost.mass(row);
    Eigen::RowVectorXd error;
    if (kept < kSmallestKept) {
      error = full - output_of_kept(reference, table, row);
    } else {
      error = (lost.outputs.row(row) - lost.mass(row) * full) / kept;
    }
    const Eigen::RowVectorXd output = full - error;
    const double norm = std::max(full.norm(), kSmallestOutput);
    const double factor = row_weight / (norm * norm);
    const double relative = error.norm() / norm;
    loss.output_error += row_weight * relative;
    loss.output_error_squared += row_weight * relative * relative;
    terms.vectors.row(row) = (factor * error).cast<float>();
    terms.vectors.row(rows + row) = (factor * output).cast<float>();
    terms.along.push_back(static_cast<float>(factor * output.dot(error)));
    terms.factor.push_back(static_cast<float>(factor));
    terms.squared.push_back(static_cast<float>(factor * output.squaredNorm()));
  }
  return terms;
}

constexpr std::int64_t kLanes = 16;

/// Both sums of one position over the rows. @param along_error, along_output  [row] <v_j, f_i e_i>, <v_j, f_i ohat_i>
KVTIDE_EVERY_VECTOR_WIDTH
void sum_of_position(const float* weights, const float* along_error, const float* along_output, std::int64_t rows,
                     const RowTerms& terms, float square, float sums[2]) {
  const float* along = terms.along.data();
  const float* factor = terms.factor.data();
  const float* squared = terms.squared.data();
  float of_signed[kLanes] = {};
  float of_size[kLanes] = {};
  const auto add = [&](std::int64_t row, std::int64_t lane) {
    of_signed[lane] += weights[row] * (along_error[row] - along[row]);
    of_size[lane] += weights[row] * weights[row] * (factor[row] * square - 2 * along_output[row] + squared[row]);
  };
  std::int64_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(row + lane, lane);
  }
  for (std::int64_t lane = 0; row + lane < rows; ++lane) add(row + lane, lane);
  sums[0] = sums[1] = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    sums[0] += of_signed[lane];
    sums[1] += of_size[lane];
  }
}

void attribute(const HeadReference& reference, std::span<const std::int64_t> evicted, const RowTerms& terms,
               HeadLoss& loss) {
  constexpr auto kAtOnce = static_cast<std::size_t>(kv::kProductRows);
  const std::int64_t rows = reference.num_rows();
  const kv::TransposedKeys vectors(terms.vectors, 2 * rows);
  kv::ProductSpace products(kv::kProductRows * vectors.stride());
  kv::RowMatrix values(kv::kProductRows, reference.v.cols());
  for (; !evicted.empty(); evicted = evicted.subspan(std::min(kAtOnce, evicted.size()))) {
    const auto some = evicted.first(std::min(kAtOnce, evicted.size()));
    gather(reference.v, some, values.data());
    vectors.multiply(values.data(), std::ssize(some), 1.0F, 2 * rows, products.data());
    for (std::int64_t index = 0; index < std::ssize(some); ++index) {
      const std::int64_t position = some[static_cast<std::size_t>(index)];
      const float* of_position = products.data() + index * vectors.stride();
      float sums[2];
      sum_of_position(reference.weights_by_position.row(position).data(), of_position, of_position + rows, rows, terms,
                      values.row(index).squaredNorm(), sums);
      loss.output_loss_signed[static_cast<std::size_t>(position)] = static_cast<double>(sums[0]);
      loss.output_loss[static_cast<std::size_t>(position)] = std::max(0.0, static_cast<double>(sums[1]));
    }
  }
}

}  // namespace

HeadLoss evicted_loss(const HeadReference& reference, const kv::HeadCache& cache) {
  KVTIDE_ASSERT(cache.entries.has_value() && cache.entries->is_recorded, "only what was dropped differs");
  const kv::EntryTable& table = *cache.entries;
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  KVTIDE_ASSERT(table.entry_of.size() == positions, "the cache holds the reference's positions");
  HeadLoss loss;
  for (auto* profile :
       {&loss.lost_mass, &loss.mass_loss, &loss.output_loss, &loss.output_loss_signed, &loss.bits_lost}) {
    profile->assign(positions, 0.0);
  }
  const std::vector<std::int64_t> evicted = evicted_positions(table);
  for (const std::int64_t evicted_position : evicted) {
    const auto position = static_cast<std::size_t>(evicted_position);
    loss.lost_mass[position] = reference.attention[position];
    loss.mass_loss[position] = 1;
    loss.bits_lost[position] = kFp16Bits;
  }
  loss.lost_of_row.assign(static_cast<std::size_t>(reference.num_rows()), 0.0);
  if (evicted.empty()) return loss;
  attribute(reference, evicted, row_terms(reference, table, evicted, loss), loss);
  return loss;
}

}  // namespace kvtide::loss
