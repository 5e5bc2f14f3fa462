#include "loss/evicted_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kv/compression/dot_products.h"
#include "loss/bits_lost.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute (as in loss_meter.cc).
constexpr double kSmallestOutput = 1e-12;
/// Below this share of attention kept, u - m o has lost too many of float32's digits: what stays is summed instead.
constexpr double kSmallestKept = 0.02;
/// Positions summed in float32 before float64 takes over.
constexpr std::int64_t kTermsAtOnce = 256;

/// The evicted positions' rows, one behind the other.
struct Evicted {
  std::vector<std::int64_t> positions;
  kv::RowMatrix weights;  ///< [evicted, row]
  kv::RowMatrix values;   ///< [evicted, channel]
};

Evicted evicted_of(const HeadReference& reference, const kv::EntryTable& table) {
  Evicted evicted;
  for (std::size_t position = 0; position < table.entry_of.size(); ++position) {
    if (table.entry_of[position] < 0) evicted.positions.push_back(static_cast<std::int64_t>(position));
  }
  const auto count = static_cast<std::int64_t>(evicted.positions.size());
  evicted.weights.resize(count, reference.num_rows());
  evicted.values.resize(count, reference.v.cols());
  for (std::int64_t index = 0; index < count; ++index) {
    const std::int64_t position = evicted.positions[static_cast<std::size_t>(index)];
    evicted.weights.row(index) = reference.weights_by_position.row(position);
    evicted.values.row(index) = reference.v.row(position);
  }
  return evicted;
}

/// sum over the evicted of a_ij and a_ij v_j, [row] and [row, channel].
struct LostSums {
  Eigen::VectorXd mass;
  DoubleMatrix outputs;
};

LostSums lost_sums(const Evicted& evicted) {
  const std::int64_t rows = evicted.weights.cols();
  LostSums sums{Eigen::VectorXd::Zero(rows), DoubleMatrix::Zero(rows, evicted.values.cols())};
  kv::RowMatrix part(rows, evicted.values.cols());
  Eigen::RowVectorXf mass(rows);
  for (std::int64_t first = 0; first < evicted.weights.rows(); first += kTermsAtOnce) {
    const std::int64_t count = std::min(kTermsAtOnce, evicted.weights.rows() - first);
    const float* weights = evicted.weights.row(first).data();
    kv::matrix_product({weights, 1, rows}, rows, count, evicted.values.row(first).data(), part.cols(), part.data());
    sums.outputs += part.cast<double>();
    mass = evicted.weights.middleRows(first, count).colwise().sum();
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

/// What the products of C and C+ need of each row, [row] or [row, channel].
struct RowTerms {
  kv::RowMatrix error;         ///< f_i e_i
  kv::RowMatrix output;        ///< f_i ohat_i
  Eigen::RowVectorXf along;    ///< f_i <ohat_i, e_i>
  Eigen::RowVectorXf factor;   ///< f_i
  Eigen::RowVectorXf squared;  ///< f_i |ohat_i|^2
};

/// Adds E and E^2. A row that sees none of the evicted positions has no error.
RowTerms row_terms(const HeadReference& reference, const kv::EntryTable& table, const Evicted& evicted,
                   HeadLoss& loss) {
  const std::int64_t rows = reference.num_rows();
  const double row_weight = 1.0 / static_cast<double>(rows);
  const LostSums lost = lost_sums(evicted);
  RowTerms terms{kv::RowMatrix(rows, reference.v.cols()), kv::RowMatrix(rows, reference.v.cols()),
                 Eigen::RowVectorXf(rows), Eigen::RowVectorXf(rows), Eigen::RowVectorXf(rows)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const Eigen::RowVectorXd full = reference.outputs.row(row);
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
    terms.error.row(row) = (factor * error).cast<float>();
    terms.output.row(row) = (factor * output).cast<float>();
    terms.along(row) = static_cast<float>(factor * output.dot(error));
    terms.factor(row) = static_cast<float>(factor);
    terms.squared(row) = static_cast<float>(factor * output.squaredNorm());
  }
  return terms;
}

void attribute(const Evicted& evicted, const RowTerms& terms, HeadLoss& loss) {
  const std::int64_t rows = evicted.weights.cols();
  const std::int64_t channels = evicted.values.cols();
  kv::RowMatrix along_error(kTermsAtOnce, channels);
  kv::RowMatrix along_output(kTermsAtOnce, channels);
  kv::RowMatrix squares;
  Eigen::VectorXf signed_loss;
  Eigen::VectorXf loss_size;
  for (std::int64_t first = 0; first < evicted.weights.rows(); first += kTermsAtOnce) {
    const std::int64_t count = std::min(kTermsAtOnce, evicted.weights.rows() - first);
    const auto weights = evicted.weights.middleRows(first, count);
    const auto values = evicted.values.middleRows(first, count);
    squares = weights.cwiseAbs2();
    kv::matrix_product({weights.data(), rows, 1}, count, rows, terms.error.data(), channels, along_error.data());
    kv::matrix_product({squares.data(), rows, 1}, count, rows, terms.output.data(), channels, along_output.data());
    signed_loss = values.cwiseProduct(along_error.topRows(count)).rowwise().sum() - weights * terms.along.transpose();
    loss_size = values.rowwise().squaredNorm().cwiseProduct(squares * terms.factor.transpose()) -
                2 * values.cwiseProduct(along_output.topRows(count)).rowwise().sum() +
                squares * terms.squared.transpose();
    for (std::int64_t index = 0; index < count; ++index) {
      const auto position = static_cast<std::size_t>(evicted.positions[static_cast<std::size_t>(first + index)]);
      loss.output_loss_signed[position] = static_cast<double>(signed_loss(index));
      loss.output_loss[position] = std::max(0.0, static_cast<double>(loss_size(index)));
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
  const Evicted evicted = evicted_of(reference, table);
  for (const std::int64_t evicted_position : evicted.positions) {
    const auto position = static_cast<std::size_t>(evicted_position);
    loss.lost_mass[position] = reference.attention[position];
    loss.mass_loss[position] = 1;
    loss.bits_lost[position] = kFp16Bits;
  }
  if (evicted.positions.empty()) return loss;
  attribute(evicted, row_terms(reference, table, evicted, loss), loss);
  return loss;
}

}  // namespace kvtide::loss
