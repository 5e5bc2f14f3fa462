#include "loss/replay_loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/vector_width.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/exponential.h"
#include "loss/bits_lost.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute (as in loss_meter.cc).
constexpr double kSmallestOutput = 1e-12;
/// Below this share of attention kept, u - m o has lost too many of float32's digits: what stays is summed instead.
constexpr double kSmallestKept = 0.02;
/// Positions summed in float32 before float64 takes over.
constexpr std::int64_t kPositionsAtOnce = 128;
constexpr float kLargestExponent = 40;

using Positions = std::span<const std::int32_t>;

/// Calls visit(first index, positions) for `at_once` of them after another.
template <typename Visit>
void for_some(Positions positions, std::int64_t at_once, Visit visit) {
  for (std::int64_t first = 0; first < std::ssize(positions); first += at_once) {
    const auto count = static_cast<std::size_t>(std::min(at_once, std::ssize(positions) - first));
    visit(first, positions.subspan(static_cast<std::size_t>(first), count));
  }
}

/// Rows at the given positions, one behind the other.
void gather(const kv::RowMatrix& rows, Positions positions, float* gathered) {
  for (const std::int32_t position : positions)
    gathered = std::copy_n(rows.row(position).data(), rows.cols(), gathered);
}

/// Sixteen rows that the compiler keeps in one register, or in two or four of a narrower processor.
using Sixteen = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr std::int64_t kLanes = 16;

/// The first `count` lanes; the others are 0. Always inlined: by itself it would be compiled for the narrowest registers.
[[gnu::always_inline]] inline void load(const float* from, std::int64_t count, Sixteen& lanes) {
  lanes = Sixteen{};
  std::memcpy(&lanes, from, static_cast<std::size_t>(count) * sizeof(float));
}

[[gnu::always_inline]] inline float sum_of(const Sixteen& lanes) {
  float sum = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

KVTIDE_EVERY_VECTOR_WIDTH
void subtract(const float* row, const float* entry, std::int64_t channels, float* __restrict__ difference) {
  for (std::int64_t channel = 0; channel < channels; ++channel) difference[channel] = row[channel] - entry[channel];
}

/// How far the rows at the given positions are from their entries, one behind the other.
void gather_differences(const kv::RowMatrix& rows, const kv::RowMatrix& entries, const kv::EntryTable& table,
                        Positions positions, float* gathered) {
  for (const std::int32_t position : positions) {
    const std::int32_t entry = table.entry_of[static_cast<std::size_t>(position)];
    subtract(rows.row(position).data(), entries.row(entry).data(), rows.cols(), gathered);
    gathered += rows.cols();
  }
}

/// <a, b>
KVTIDE_EVERY_VECTOR_WIDTH
float dot(const float* a, const float* b, std::int64_t channels) {
  Sixteen sum = {};
  const auto add = [&](std::int64_t channel, std::int64_t count) __attribute__((always_inline)) {
    Sixteen left, right;
    load(a + channel, count, left);
    load(b + channel, count, right);
    sum += left * right;
  };
  std::int64_t channel = 0;
  for (; channel + kLanes <= channels; channel += kLanes) add(channel, kLanes);
  if (channel < channels) add(channel, channels - channel);
  return sum_of(sum);
}

/// @return how many exponents are too large
[[gnu::always_inline]] inline std::int32_t grow_sixteen(float* __restrict__ growths, float bias,
                                                        const float* __restrict__ weights, float* __restrict__ gone,
                                                        float* __restrict__ held, float* __restrict__ sum) {
  std::int32_t num_large = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const float exponent = growths[lane] + bias;
    num_large += exponent < kLargestExponent ? 0 : 1;
    const float growth = kv::exponential_minus_one(exponent < kLargestExponent ? exponent : kLargestExponent);
    growths[lane] = growth;
    gone[lane] = -weights[lane] * growth;
    held[lane] = weights[lane] + weights[lane] * growth;
    sum[lane] += gone[lane];
  }
  return num_large;
}

/// One position's exponents become growths g; d = -a g, also added to `sum`, and h = a (1 + g) beside them.
/// @param growths  with space for whole sixteens @return whether every exponent is small enough
KVTIDE_EVERY_VECTOR_WIDTH
bool grow(float* growths, float bias, const float* weights, std::int64_t rows, float* gone, float* held, float* sum) {
  std::int32_t num_large = 0;
  std::int64_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) {
    num_large += grow_sixteen(growths + row, bias, weights + row, gone + row, held + row, sum + row);
  }
  if (row < rows) {
    float last[4][kLanes] = {};
    const auto count = static_cast<std::size_t>(rows - row) * sizeof(float);
    std::memcpy(last[0], weights + row, count);
    num_large += grow_sixteen(growths + row, bias, last[0], last[1], last[2], last[3]);
    std::memcpy(gone + row, last[1], count);
    std::memcpy(held + row, last[2], count);
    for (std::int64_t lane = 0; row + lane < rows; ++lane) sum[row + lane] += last[3][lane];
  }
  return num_large == 0;
}

/// What the rows lose in all: 1 - S_i and u_i, [row] and [row, channel].
struct LostSums {
  Eigen::VectorXd mass;
  DoubleMatrix outputs;
};

/// What C, C+ and the lost mass need of each row, [row] or [row, channel].
struct RowTerms {
  kv::RowMatrix vectors;       ///< [2 rows, channel] f_i e_i, then f_i ohat_i
  std::vector<float> along;    ///< f_i <ohat_i, e_i>
  std::vector<float> factor;   ///< f_i
  std::vector<float> squared;  ///< f_i |ohat_i|^2
  std::vector<float> shrink;   ///< (S_i - 1) / S_i
};

/// Sums over the rows that make a position's figures.
struct PositionSums {
  float signed_loss = 0;
  float loss = 0;
  float lost = 0;
};

/// What one position's row of products holds: its vector with all f_i e_i and f_i ohat_i.
struct Products {
  const float* with_error = nullptr;   ///< [row]
  const float* with_output = nullptr;  ///< [row]
  float square = 0;                    ///< of the vector itself
};

KVTIDE_EVERY_VECTOR_WIDTH
PositionSums sum_of_evicted(const float* weights, const Products& value, std::int64_t rows, const RowTerms& terms) {
  Sixteen of_signed = {};
  Sixteen of_size = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Sixteen weight, with_error, with_output, along, factor, squared;
    load(weights + row, count, weight);
    load(value.with_error + row, count, with_error);
    load(value.with_output + row, count, with_output);
    load(terms.along.data() + row, count, along);
    load(terms.factor.data() + row, count, factor);
    load(terms.squared.data() + row, count, squared);
    of_signed += weight * (with_error - along);
    of_size += weight * weight * (factor * value.square - 2 * with_output + squared);
  };
  std::int64_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) add(row, kLanes);
  if (row < rows) add(row, rows - row);
  return {sum_of(of_signed), sum_of(of_size), 0};
}

/// @param change   of v - vhat @param cross  <v, v - vhat> @param of_row  [row] the lost mass is added
KVTIDE_EVERY_VECTOR_WIDTH
PositionSums sum_of_changed(const float* weights, const float* growths, const Products& value, const Products& change,
                            float cross, std::int64_t rows, const RowTerms& terms, float* of_row) {
  Sixteen of_signed = {};
  Sixteen of_size = {};
  Sixteen of_mass = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Sixteen weight, growth, with_error, with_output, change_error, change_output, along, factor, squared, shrink, lost;
    load(weights + row, count, weight);
    load(growths + row, count, growth);
    load(value.with_error + row, count, with_error);
    load(value.with_output + row, count, with_output);
    load(change.with_error + row, count, change_error);
    load(change.with_output + row, count, change_output);
    load(terms.along.data() + row, count, along);
    load(terms.factor.data() + row, count, factor);
    load(terms.squared.data() + row, count, squared);
    load(terms.shrink.data() + row, count, shrink);
    load(of_row + row, count, lost);
    const Sixteen gone = -weight * growth;
    const Sixteen held = weight - gone;
    of_signed += gone * (with_error - along) + held * change_error;
    const Sixteen far = factor * value.square - 2 * with_output + squared;
    const Sixteen both = factor * cross - change_output;
    of_size += gone * (gone * far + 2 * held * both) + held * held * (factor * change.square);
    const Sixteen mass = gone + held * shrink;
    const Sixteen positive = mass > 0 ? mass : Sixteen{};
    of_mass += positive;
    lost += positive;
    std::memcpy(of_row + row, &lost, static_cast<std::size_t>(count) * sizeof(float));
  };
  std::int64_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) add(row, kLanes);
  if (row < rows) add(row, rows - row);
  return {sum_of(of_signed), sum_of(of_size), sum_of(of_mass)};
}

/// A head under a cache, and what its parts share.
class Replay {
 public:
  Replay(const HeadReference& reference, const kv::EntryTable& table, TouchedPositions touched)
      : reference_(reference),
        table_(table),
        touched_(std::move(touched)),
        rows_(reference.num_rows()),
        channels_(reference.v.cols()),
        lost_{Eigen::VectorXd::Zero(rows_), DoubleMatrix::Zero(rows_, channels_)} {
    const auto positions = static_cast<std::size_t>(reference.num_positions());
    for (auto* profile :
         {&loss_.lost_mass, &loss_.mass_loss, &loss_.output_loss, &loss_.output_loss_signed, &loss_.bits_lost}) {
      profile->assign(positions, 0.0);
    }
    loss_.lost_of_row.assign(static_cast<std::size_t>(rows_), 0.0);
  }

  std::optional<HeadLoss> measure();

 private:
  void add_evicted_sums();
  [[nodiscard]] bool add_changed_sums();
  void add_block(const kv::RowMatrix& weights, const kv::RowMatrix& values, std::int64_t num_terms);
  double keep_only(std::int64_t row, Eigen::RowVectorXd& output) const;
  void finish_rows();
  void attribute_evicted(const kv::TransposedKeys& vectors);
  void attribute_changed(const kv::TransposedKeys& vectors);
  void shrink_untouched();
  void set_losses(std::int64_t position, const PositionSums& sums);

  const HeadReference& reference_;
  const kv::EntryTable& table_;
  TouchedPositions touched_;
  std::int64_t rows_;
  std::int64_t channels_;
  LostSums lost_;
  kv::RowMatrix part_;
  /// Of the changed positions, [changed position, growth_stride_].
  std::optional<kv::ProductSpace> growths_;
  std::int64_t growth_stride_ = 0;
  RowTerms terms_;
  HeadLoss loss_;
};

/// Adds sum of weights(term, row) * values(term, channel) to u.
void Replay::add_block(const kv::RowMatrix& weights, const kv::RowMatrix& values, std::int64_t num_terms) {
  part_.resize(rows_, channels_);
  kv::matrix_product({weights.data(), 1, rows_}, rows_, num_terms, values.data(), channels_, part_.data());
  lost_.outputs += part_.cast<double>();
}

void Replay::add_evicted_sums() {
  kv::RowMatrix weights(2 * kPositionsAtOnce, rows_);
  kv::RowMatrix values(2 * kPositionsAtOnce, channels_);
  Eigen::RowVectorXf mass(rows_);
  for_some(touched_.evicted, 2 * kPositionsAtOnce, [&](std::int64_t, Positions some) {
    gather(reference_.weights_by_position, some, weights.data());
    gather(reference_.v, some, values.data());
    add_block(weights, values, std::ssize(some));
    mass = weights.topRows(std::ssize(some)).colwise().sum();
    lost_.mass += mass.transpose().cast<double>();
  });
}

/// @return whether every exponent is small enough
bool Replay::add_changed_sums() {
  const Positions changed = touched_.changed_positions;
  const kv::TransposedKeys queries(reference_.q, rows_);
  growth_stride_ = queries.stride();
  growths_.emplace(std::ssize(changed) * growth_stride_);
  kv::RowMatrix weights(2 * kPositionsAtOnce, rows_);
  kv::RowMatrix values(2 * kPositionsAtOnce, channels_);
  kv::RowMatrix keys(kPositionsAtOnce, channels_);
  Eigen::RowVectorXf gone(rows_);
  bool is_small = true;
  for_some(changed, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    const auto count = std::ssize(some);
    gather_differences(reference_.k, table_.k, table_, some, keys.data());
    float* growths = growths_->data() + first * growth_stride_;
    queries.multiply(keys.data(), count, -static_cast<float>(reference_.scale), rows_, growths);
    gone.setZero();
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int32_t position = some[static_cast<std::size_t>(index)];
      const float bias = table_.bias[static_cast<std::size_t>(table_.entry_of[static_cast<std::size_t>(position)])];
      is_small = grow(growths + index * growth_stride_, bias, reference_.weights_by_position.row(position).data(),
                      rows_, weights.row(index).data(), weights.row(count + index).data(), gone.data()) &&
                 is_small;
    }
    lost_.mass += gone.transpose().cast<double>();
    gather(reference_.v, some, values.data());
    gather_differences(reference_.v, table_.v, table_, some, values.row(count).data());
    add_block(weights, values, 2 * count);
  });
  return is_small;
}

/// ohat of a row summed over what stays, where nearly nothing does. @return S_i
double Replay::keep_only(std::int64_t row, Eigen::RowVectorXd& output) const {
  double mass = 0;
  output.setZero();
  std::int64_t changed = 0;
  for (std::int64_t position = 0; position < reference_.num_positions(); ++position) {
    const PositionState state = touched_.state[static_cast<std::size_t>(position)];
    if (state == PositionState::evicted) continue;
    double weight = reference_.weights(row, position);
    const float* value = reference_.v.row(position).data();
    if (state == PositionState::changed) {
      weight *= 1.0 + static_cast<double>(growths_->data()[changed * growth_stride_ + row]);
      value = table_.v.row(table_.entry_of[static_cast<std::size_t>(position)]).data();
      ++changed;
    }
    mass += weight;
    output += weight * Eigen::Map<const Eigen::RowVectorXf>(value, channels_).cast<double>();
  }
  if (mass > 0) output /= mass;
  return mass;
}

/// E, E^2 and what attributing them needs. A row that sees nothing touched has no error.
void Replay::finish_rows() {
  const double row_weight = 1.0 / static_cast<double>(rows_);
  terms_.vectors.resize(2 * rows_, channels_);
  Eigen::RowVectorXd output(channels_);
  Eigen::RowVectorXd error(channels_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto full = reference_.outputs.row(row);
    double gone = lost_.mass(row);
    double kept = 1 - gone;
    if (kept < kSmallestKept) {
      kept = keep_only(row, output);
      gone = 1 - kept;
      error = full - output;
    } else {
      error = (lost_.outputs.row(row) - gone * full) / kept;
      output = full - error;
    }
    const double norm = std::max(full.norm(), kSmallestOutput);
    const double factor = row_weight / (norm * norm);
    const double relative = error.norm() / norm;
    loss_.output_error += row_weight * relative;
    loss_.output_error_squared += row_weight * relative * relative;
    terms_.vectors.row(row) = (factor * error).cast<float>();
    terms_.vectors.row(rows_ + row) = (factor * output).cast<float>();
    terms_.along.push_back(static_cast<float>(factor * output.dot(error)));
    terms_.factor.push_back(static_cast<float>(factor));
    terms_.squared.push_back(static_cast<float>(factor * output.squaredNorm()));
    terms_.shrink.push_back(static_cast<float>(kept > 0 ? -gone / kept : 0));
  }
}

void Replay::set_losses(std::int64_t position, const PositionSums& sums) {
  const auto j = static_cast<std::size_t>(position);
  loss_.output_loss_signed[j] = static_cast<double>(sums.signed_loss);
  loss_.output_loss[j] = std::max(0.0, static_cast<double>(sums.loss));
}

void Replay::attribute_evicted(const kv::TransposedKeys& vectors) {
  kv::ProductSpace products(kv::kProductRows * vectors.stride());
  kv::RowMatrix values(kv::kProductRows, channels_);
  for_some(touched_.evicted, kv::kProductRows, [&](std::int64_t, Positions some) {
    gather(reference_.v, some, values.data());
    vectors.multiply(values.data(), std::ssize(some), 1.0F, 2 * rows_, products.data());
    for (std::int64_t index = 0; index < std::ssize(some); ++index) {
      const std::int64_t position = some[static_cast<std::size_t>(index)];
      const float* with_error = products.data() + index * vectors.stride();
      const Products value{with_error, with_error + rows_, values.row(index).squaredNorm()};
      set_losses(position, sum_of_evicted(reference_.weights_by_position.row(position).data(), value, rows_, terms_));
    }
  });
}

void Replay::attribute_changed(const kv::TransposedKeys& vectors) {
  kv::ProductSpace products(2 * kv::kProductRows * vectors.stride());
  kv::RowMatrix values(2 * kv::kProductRows, channels_);  // v, then v - vhat
  Eigen::RowVectorXf of_row(rows_);
  const double row_weight = 1.0 / static_cast<double>(rows_);
  for_some(touched_.changed_positions, kv::kProductRows, [&](std::int64_t first, Positions some) {
    const std::int64_t count = std::ssize(some);
    gather(reference_.v, some, values.data());
    gather_differences(reference_.v, table_.v, table_, some, values.row(count).data());
    vectors.multiply(values.data(), 2 * count, 1.0F, 2 * rows_, products.data());
    of_row.setZero();
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int64_t position = some[static_cast<std::size_t>(index)];
      const auto j = static_cast<std::size_t>(position);
      const auto products_of = [&](std::int64_t row) {
        const float* with_error = products.data() + row * vectors.stride();
        return Products{with_error, with_error + rows_, dot(values.row(row).data(), values.row(row).data(), channels_)};
      };
      const PositionSums sums = sum_of_changed(
          reference_.weights_by_position.row(position).data(), growths_->data() + (first + index) * growth_stride_,
          products_of(index), products_of(count + index),
          dot(values.row(index).data(), values.row(count + index).data(), channels_), rows_, terms_, of_row.data());
      set_losses(position, sums);
      loss_.lost_mass[j] = row_weight * static_cast<double>(sums.lost);
      if (reference_.attention[j] > 0) loss_.mass_loss[j] = std::min(1.0, loss_.lost_mass[j] / reference_.attention[j]);
    }
    for (std::int64_t row = 0; row < rows_; ++row) {
      loss_.lost_of_row[static_cast<std::size_t>(row)] += static_cast<double>(of_row(row));
    }
  });
}

/// Untouched keys lose only to others that grew: S > 1.
void Replay::shrink_untouched() {
  Eigen::RowVectorXf shrink = Eigen::Map<const Eigen::RowVectorXf>(terms_.shrink.data(), rows_).cwiseMax(0.0F);
  if (shrink.maxCoeff() <= 0) return;
  for (std::size_t j = 0; j < touched_.state.size(); ++j) {
    if (touched_.state[j] != PositionState::untouched) continue;
    const Eigen::RowVectorXf lost =
        shrink.cwiseProduct(reference_.weights_by_position.row(static_cast<std::int64_t>(j)));
    loss_.lost_mass[j] = static_cast<double>(lost.sum()) / static_cast<double>(rows_);
    if (reference_.attention[j] > 0) loss_.mass_loss[j] = loss_.lost_mass[j] / reference_.attention[j];
    for (std::int64_t row = 0; row < rows_; ++row) {
      loss_.lost_of_row[static_cast<std::size_t>(row)] += static_cast<double>(lost(row));
    }
  }
}

std::optional<HeadLoss> Replay::measure() {
  if (touched_.has_pools) return std::nullopt;
  loss_.bits_lost = bits_lost(reference_, touched_, table_);
  if (touched_.evicted.empty() && touched_.changed_positions.empty()) return std::move(loss_);
  for (const std::int32_t position : touched_.evicted) {
    const auto j = static_cast<std::size_t>(position);
    loss_.lost_mass[j] = reference_.attention[j];
    loss_.mass_loss[j] = 1;
  }
  add_evicted_sums();
  Eigen::Map<Eigen::VectorXd>(loss_.lost_of_row.data(), rows_) = lost_.mass;
  if (!touched_.changed_positions.empty() && !add_changed_sums()) return std::nullopt;
  finish_rows();
  const kv::TransposedKeys vectors(terms_.vectors, 2 * rows_);
  attribute_evicted(vectors);
  if (!touched_.changed_positions.empty()) {
    attribute_changed(vectors);
    shrink_untouched();
  }
  return std::move(loss_);
}

}  // namespace

std::optional<HeadLoss> replay_loss(const HeadReference& reference, const kv::HeadCache& cache) {
  KVTIDE_ASSERT(cache.entries.has_value(), "a cache without entries cannot be measured");
  return Replay(reference, *cache.entries, touched_positions(reference, *cache.entries)).measure();
}

}  // namespace kvtide::loss
