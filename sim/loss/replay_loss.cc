#include "loss/replay_loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/vector_width.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/exponential.h"
#include "kv/compression/lanes.h"
#include "loss/bits_lost.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

using kv::kNumLanes;
using kv::Lanes;
using kv::load;
using kv::sum_of;

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

/// Rows at the given positions, one behind the other. A processor foresees no gaps: it is told of rows to come.
KVTIDE_EVERY_VECTOR_WIDTH
void gather(const float* rows, std::int64_t channels, Positions positions, float* gathered) {
  constexpr std::size_t kAhead = 12;
  for (std::size_t index = 0; index < positions.size(); ++index) {
    const float* row = rows + positions[index] * channels;
    const float* ahead = rows + positions[std::min(index + kAhead, positions.size() - 1)] * channels;
    const auto copy = [&](std::int64_t channel, std::int64_t count) __attribute__((always_inline)) {
      __builtin_prefetch(ahead + channel);
      Lanes some;
      load(row + channel, count, some);
      std::memcpy(gathered + channel, &some, static_cast<std::size_t>(count) * sizeof(float));
    };
    std::int64_t channel = 0;
    for (; channel + kNumLanes <= channels; channel += kNumLanes) copy(channel, kNumLanes);
    if (channel < channels) copy(channel, channels - channel);
    gathered += channels;
  }
}

/// The rows at the given positions: as they lie where these follow one another, else gathered.
const float* rows_at(const kv::RowMatrix& rows, Positions positions, float* space) {
  if (positions.back() - positions.front() + 1 == std::ssize(positions)) return rows.row(positions.front()).data();
  gather(rows.data(), rows.cols(), positions, space);
  return space;
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
  Lanes sum = {};
  const auto add = [&](std::int64_t channel, std::int64_t count) __attribute__((always_inline)) {
    Lanes left, right;
    load(a + channel, count, left);
    load(b + channel, count, right);
    sum += left * right;
  };
  std::int64_t channel = 0;
  for (; channel + kNumLanes <= channels; channel += kNumLanes) add(channel, kNumLanes);
  if (channel < channels) add(channel, channels - channel);
  return sum_of(sum);
}

/// @return how many exponents are too large
[[gnu::always_inline]] inline std::int32_t grow_sixteen(float* __restrict__ growths, float bias,
                                                        const float* __restrict__ weights, float* __restrict__ gone,
                                                        float* __restrict__ held, float* __restrict__ sum) {
  std::int32_t num_large = 0;
  for (std::int64_t lane = 0; lane < kNumLanes; ++lane) {
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
  for (; row + kNumLanes <= rows; row += kNumLanes) {
    num_large += grow_sixteen(growths + row, bias, weights + row, gone + row, held + row, sum + row);
  }
  if (row < rows) {
    float last[4][kNumLanes] = {};
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
};

/// What one position's row of products holds: its vector with all f_i e_i and f_i ohat_i.
struct Products {
  const float* with_error = nullptr;   ///< [row]
  const float* with_output = nullptr;  ///< [row]
  float square = 0;                    ///< of the vector itself
};

KVTIDE_EVERY_VECTOR_WIDTH
PositionSums sum_of_evicted(const float* weights, const Products& value, std::int64_t rows, const RowTerms& terms) {
  Lanes of_signed = {};
  Lanes of_size = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Lanes weight, with_error, with_output, along, factor, squared;
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
  for (; row + kNumLanes <= rows; row += kNumLanes) add(row, kNumLanes);
  if (row < rows) add(row, rows - row);
  return {sum_of(of_signed), sum_of(of_size)};
}

/// @param change   of v - vhat @param cross  <v, v - vhat>
KVTIDE_EVERY_VECTOR_WIDTH
PositionSums sum_of_changed(const float* weights, const float* growths, const Products& value, const Products& change,
                            float cross, std::int64_t rows, const RowTerms& terms) {
  Lanes of_signed = {};
  Lanes of_size = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Lanes weight, growth, with_error, with_output, change_error, change_output, along, factor, squared;
    load(weights + row, count, weight);
    load(growths + row, count, growth);
    load(value.with_error + row, count, with_error);
    load(value.with_output + row, count, with_output);
    load(change.with_error + row, count, change_error);
    load(change.with_output + row, count, change_output);
    load(terms.along.data() + row, count, along);
    load(terms.factor.data() + row, count, factor);
    load(terms.squared.data() + row, count, squared);
    const Lanes gone = -weight * growth;
    const Lanes held = weight - gone;
    of_signed += gone * (with_error - along) + held * change_error;
    const Lanes far = factor * value.square - 2 * with_output + squared;
    const Lanes both = factor * cross - change_output;
    of_size += gone * (gone * far + 2 * held * both) + held * held * (factor * change.square);
  };
  std::int64_t row = 0;
  for (; row + kNumLanes <= rows; row += kNumLanes) add(row, kNumLanes);
  if (row < rows) add(row, rows - row);
  return {sum_of(of_signed), sum_of(of_size)};
}

/// Adds what some rows lose, where it is above 0, to the rows' sums and to `sum`.
[[gnu::always_inline]] inline void add_lost(const Lanes& change, std::int64_t count, float* of_row, Lanes& sum) {
  const Lanes lost = change > 0 ? change : Lanes{};
  Lanes of_rows;
  load(of_row, count, of_rows);
  of_rows += lost;
  std::memcpy(of_row, &of_rows, static_cast<std::size_t>(count) * sizeof(float));
  sum += lost;
}

/// Sum over the rows of max(0, d + h shrink), each also added to `of_row`.
KVTIDE_EVERY_VECTOR_WIDTH
float mass_of_changed(const float* weights, const float* growths, const float* shrink, std::int64_t rows,
                      float* of_row) {
  Lanes sum = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Lanes weight, growth, share;
    load(weights + row, count, weight);
    load(growths + row, count, growth);
    load(shrink + row, count, share);
    const Lanes gone = -weight * growth;
    add_lost(gone + (weight - gone) * share, count, of_row + row, sum);
  };
  std::int64_t row = 0;
  for (; row + kNumLanes <= rows; row += kNumLanes) add(row, kNumLanes);
  if (row < rows) add(row, rows - row);
  return sum_of(sum);
}

/// The same with d = 0.
KVTIDE_EVERY_VECTOR_WIDTH
float mass_of_untouched(const float* weights, const float* shrink, std::int64_t rows, float* of_row) {
  Lanes sum = {};
  const auto add = [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
    Lanes weight, share;
    load(weights + row, count, weight);
    load(shrink + row, count, share);
    add_lost(weight * share, count, of_row + row, sum);
  };
  std::int64_t row = 0;
  for (; row + kNumLanes <= rows; row += kNumLanes) add(row, kNumLanes);
  if (row < rows) add(row, rows - row);
  return sum_of(sum);
}

/// A head under a cache, and what its parts share.
class Replay {
 public:
  Replay(const HeadReference& reference, const kv::HeadCache& cache)
      : reference_(reference),
        table_(*cache.entries),
        touched_(touched_positions(reference, table_)),
        rows_(reference.num_rows()),
        channels_(reference.v.cols()),
        lost_{Eigen::VectorXd::Zero(rows_), DoubleMatrix::Zero(rows_, channels_)},
        part_(rows_, channels_) {
    const auto positions = static_cast<std::size_t>(reference.num_positions());
    for (auto* profile :
         {&loss_.lost_mass, &loss_.mass_loss, &loss_.output_loss, &loss_.output_loss_signed, &loss_.bits_lost}) {
      profile->assign(positions, 0.0);
    }
    loss_.lost_of_row.assign(static_cast<std::size_t>(rows_), 0.0);
  }

  /// Only lost mass. @return whether this way serves
  [[nodiscard]] bool measure_mass();
  /// All the rest too.
  [[nodiscard]] bool measure_all();
  HeadLoss take() { return std::move(loss_); }

 private:
  [[nodiscard]] bool weigh(bool with_outputs);
  void add_evicted_sums(bool with_outputs);
  [[nodiscard]] bool add_changed_sums(bool with_outputs);
  void add_block(const float* weights, const float* values, std::int64_t num_terms);
  double keep_only(std::int64_t row, Eigen::RowVectorXd& output) const;
  void find_shrinkage();
  void lose_mass();
  void move_to_rows(std::vector<float>& of_row);
  void finish_rows();
  void attribute_evicted(const kv::TransposedKeys& vectors);
  void attribute_changed(const kv::TransposedKeys& vectors);
  void shrink_untouched();
  void set_losses(std::int64_t position, const PositionSums& sums);
  /// @param products  of the vector with f_i e_i, then with f_i ohat_i
  [[nodiscard]] Products products_of(const float* products, const float* vector) const {
    return {products, products + rows_, dot(vector, vector, channels_)};
  }

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
void Replay::add_block(const float* weights, const float* values, std::int64_t num_terms) {
  kv::matrix_product({weights, 1, rows_}, rows_, num_terms, values, channels_, part_.data());
  lost_.outputs += part_.cast<double>();
}

void Replay::add_evicted_sums(bool with_outputs) {
  constexpr std::int64_t kAtOnce = 2 * kPositionsAtOnce;
  kv::RowMatrix weights(kAtOnce, rows_);
  kv::RowMatrix values(kAtOnce, channels_);
  for_some(touched_.evicted, kAtOnce, [&](std::int64_t, Positions some) {
    const float* of_rows = rows_at(reference_.weights_by_position, some, weights.data());
    if (with_outputs) add_block(of_rows, rows_at(reference_.v, some, values.data()), std::ssize(some));
    const Eigen::RowVectorXf mass = Eigen::Map<const kv::RowMatrix>(of_rows, std::ssize(some), rows_).colwise().sum();
    lost_.mass += mass.transpose().cast<double>();
  });
}

/// @return whether every exponent is small enough
bool Replay::add_changed_sums(bool with_outputs) {
  const Positions changed = touched_.changed_positions;
  const kv::TransposedKeys queries(reference_.q, rows_);
  growth_stride_ = queries.stride();
  growths_.emplace(std::ssize(changed) * growth_stride_);
  kv::RowMatrix gone(kPositionsAtOnce, rows_);
  kv::RowMatrix held(kPositionsAtOnce, rows_);
  kv::RowMatrix values(kPositionsAtOnce, channels_);
  kv::RowMatrix differences(kPositionsAtOnce, channels_);
  Eigen::RowVectorXf all_gone(rows_);
  bool is_small = true;
  for_some(changed, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    const auto count = std::ssize(some);
    gather_differences(reference_.k, table_.k, table_, some, differences.data());
    float* growths = growths_->data() + first * growth_stride_;
    queries.multiply(differences.data(), count, -static_cast<float>(reference_.scale), rows_, growths);
    all_gone.setZero();
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int32_t position = some[static_cast<std::size_t>(index)];
      const float bias = table_.bias[static_cast<std::size_t>(table_.entry_of[static_cast<std::size_t>(position)])];
      is_small = grow(growths + index * growth_stride_, bias, reference_.weights_by_position.row(position).data(),
                      rows_, gone.row(index).data(), held.row(index).data(), all_gone.data()) &&
                 is_small;
    }
    lost_.mass += all_gone.transpose().cast<double>();
    if (!with_outputs) return;
    add_block(gone.data(), rows_at(reference_.v, some, values.data()), count);
    gather_differences(reference_.v, table_.v, table_, some, differences.data());
    add_block(held.data(), differences.data(), count);
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

/// What every kept key's weight shrinks by: (S_i - 1) / S_i.
void Replay::find_shrinkage() {
  Eigen::RowVectorXd output(channels_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (1 - lost_.mass(row) < kSmallestKept) {
      lost_.mass(row) = 1 - keep_only(row, output);
      lost_.outputs.row(row) = reference_.outputs.row(row) - (1 - lost_.mass(row)) * output;
    }
    const double kept = 1 - lost_.mass(row);
    terms_.shrink.push_back(static_cast<float>(kept > 0 ? -lost_.mass(row) / kept : 0));
  }
}

/// E, E^2 and what attributing them needs. A row that sees nothing touched has no error.
void Replay::finish_rows() {
  const double row_weight = 1.0 / static_cast<double>(rows_);
  terms_.vectors.resize(2 * rows_, channels_);
  Eigen::RowVectorXd output(channels_);
  Eigen::RowVectorXd error(channels_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto full = reference_.outputs.row(row);
    const double gone = lost_.mass(row);
    error = full;
    if (gone < 1) error = (lost_.outputs.row(row) - gone * full) / (1 - gone);
    output = full - error;
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
  }
}

/// Of all positions. Untouched keys lose only to others that grew: S > 1.
void Replay::lose_mass() {
  const float* shrink = terms_.shrink.data();
  const bool others_grew = std::ranges::any_of(terms_.shrink, [](float share) { return share > 0; });
  std::int64_t changed = 0;
  std::vector<float> of_row(static_cast<std::size_t>(rows_), 0.0F);
  for (std::size_t j = 0; j < touched_.state.size(); ++j) {
    const float* weights = reference_.weights_by_position.row(static_cast<std::int64_t>(j)).data();
    float lost = 0;
    if (touched_.state[j] == PositionState::evicted) {
      loss_.lost_mass[j] = reference_.attention[j];
      loss_.mass_loss[j] = 1;
      continue;
    }
    if (touched_.state[j] == PositionState::changed) {
      lost = mass_of_changed(weights, growths_->data() + changed++ * growth_stride_, shrink, rows_, of_row.data());
    } else if (others_grew) {
      lost = mass_of_untouched(weights, shrink, rows_, of_row.data());
    }
    loss_.lost_mass[j] = static_cast<double>(lost) / static_cast<double>(rows_);
    if (reference_.attention[j] > 0) loss_.mass_loss[j] = std::min(1.0, loss_.lost_mass[j] / reference_.attention[j]);
    if (j % kPositionsAtOnce == kPositionsAtOnce - 1) move_to_rows(of_row);
  }
  move_to_rows(of_row);
}

/// Float32 sums of some positions become part of the float64 ones.
void Replay::move_to_rows(std::vector<float>& of_row) {
  for (std::size_t row = 0; row < of_row.size(); ++row) {
    loss_.lost_of_row[row] += static_cast<double>(of_row[row]);
    of_row[row] = 0;
  }
}

void Replay::set_losses(std::int64_t position, const PositionSums& sums) {
  const auto j = static_cast<std::size_t>(position);
  loss_.output_loss_signed[j] = static_cast<double>(sums.signed_loss);
  loss_.output_loss[j] = std::max(0.0, static_cast<double>(sums.loss));
}

void Replay::attribute_evicted(const kv::TransposedKeys& vectors) {
  kv::ProductSpace products(kv::kProductRows * vectors.stride());
  kv::RowMatrix space(kv::kProductRows, channels_);
  for_some(touched_.evicted, kv::kProductRows, [&](std::int64_t, Positions some) {
    const float* values = rows_at(reference_.v, some, space.data());
    vectors.multiply(values, std::ssize(some), 1.0F, 2 * rows_, products.data());
    for (std::int64_t index = 0; index < std::ssize(some); ++index) {
      const std::int64_t position = some[static_cast<std::size_t>(index)];
      set_losses(position,
                 sum_of_evicted(reference_.weights_by_position.row(position).data(),
                                products_of(products.data() + index * vectors.stride(), values + index * channels_),
                                rows_, terms_));
    }
  });
}

void Replay::attribute_changed(const kv::TransposedKeys& vectors) {
  kv::ProductSpace products(kv::kProductRows * vectors.stride());
  kv::ProductSpace difference_products(kv::kProductRows * vectors.stride());
  kv::RowMatrix space(kv::kProductRows, channels_);
  kv::RowMatrix differences(kv::kProductRows, channels_);  // v - vhat
  for_some(touched_.changed_positions, kv::kProductRows, [&](std::int64_t first, Positions some) {
    const float* values = rows_at(reference_.v, some, space.data());
    gather_differences(reference_.v, table_.v, table_, some, differences.data());
    vectors.multiply(values, std::ssize(some), 1.0F, 2 * rows_, products.data());
    vectors.multiply(differences.data(), std::ssize(some), 1.0F, 2 * rows_, difference_products.data());
    for (std::int64_t index = 0; index < std::ssize(some); ++index) {
      const std::int64_t position = some[static_cast<std::size_t>(index)];
      const float* value = values + index * channels_;
      const float* difference = differences.row(index).data();
      set_losses(position,
                 sum_of_changed(reference_.weights_by_position.row(position).data(),
                                growths_->data() + (first + index) * growth_stride_,
                                products_of(products.data() + index * vectors.stride(), value),
                                products_of(difference_products.data() + index * vectors.stride(), difference),
                                dot(value, difference, channels_), rows_, terms_));
    }
  });
}

/// @return whether this way serves
bool Replay::weigh(bool with_outputs) {
  if (touched_.has_pools) return false;
  add_evicted_sums(with_outputs);
  Eigen::Map<Eigen::VectorXd>(loss_.lost_of_row.data(), rows_) = lost_.mass;
  if (!touched_.changed_positions.empty() && !add_changed_sums(with_outputs)) return false;
  find_shrinkage();
  lose_mass();
  return true;
}

bool Replay::measure_mass() {
  return weigh(/*with_outputs=*/false);
}

bool Replay::measure_all() {
  if (!weigh(/*with_outputs=*/true)) return false;
  loss_.bits_lost = bits_lost(reference_, touched_, table_);
  if (touched_.evicted.empty() && touched_.changed_positions.empty()) return true;
  finish_rows();
  const kv::TransposedKeys vectors(terms_.vectors, 2 * rows_);
  attribute_evicted(vectors);
  attribute_changed(vectors);
  return true;
}

}  // namespace

std::optional<HeadLoss> replay_loss(const HeadReference& reference, const kv::HeadCache& cache) {
  KVTIDE_ASSERT(cache.entries.has_value(), "a cache without entries cannot be measured");
  Replay replay(reference, cache);
  if (!replay.measure_all()) return std::nullopt;
  return replay.take();
}

std::optional<MassLoss> replay_mass(const HeadReference& reference, const kv::HeadCache& cache) {
  KVTIDE_ASSERT(cache.entries.has_value(), "a cache without entries cannot be measured");
  Replay replay(reference, cache);
  if (!replay.measure_mass()) return std::nullopt;
  HeadLoss loss = replay.take();
  return MassLoss{std::move(loss.lost_mass), std::move(loss.mass_loss), std::move(loss.lost_of_row)};
}

}  // namespace kvtide::loss
