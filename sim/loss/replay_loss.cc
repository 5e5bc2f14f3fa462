#include "loss/replay_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/lanes.h"
#include "loss/bits_lost.h"
#include "loss/head_comparison.h"
#include "loss/replay_rows.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute (as in loss_meter.cc).
constexpr double kSmallestOutput = 1e-12;
/// Below this share of attention kept, u - m o has lost too many of float32's digits: what stays is summed instead.
constexpr double kSmallestKept = 0.02;
/// Positions summed in float32 before float64 takes over.
constexpr std::int64_t kPositionsAtOnce = 128;
/// Products held at a time where losses are attributed, twice over.
constexpr std::int64_t kProductsAtOnce = 16384;

/// Calls visit(first index, positions) for `at_once` of them after another.
template <typename Visit>
void for_some(Positions positions, std::int64_t at_once, Visit visit) {
  for (std::int64_t first = 0; first < std::ssize(positions); first += at_once) {
    const auto count = static_cast<std::size_t>(std::min(at_once, std::ssize(positions) - first));
    visit(first, positions.subspan(static_cast<std::size_t>(first), count));
  }
}

/// The rows at the given positions: as they lie where these follow one another, else gathered.
const float* rows_at(const kv::RowMatrix& rows, Positions positions, float* space) {
  if (positions.back() - positions.front() + 1 == std::ssize(positions)) return rows.row(positions.front()).data();
  gather(rows.data(), rows.cols(), positions, space);
  return space;
}

/// What the rows lose in all: 1 - S_i and u_i, [row] and [row, channel].
struct LostSums {
  Eigen::VectorXd mass;
  DoubleMatrix outputs;
};

/// A head under a cache, and what its parts share.
class Replay {
 public:
  Replay(const HeadReference& reference, const kv::HeadCache& cache)
      : reference_(reference),
        table_(*cache.entries),
        touched_(touched_positions(reference, table_)),
        rows_(reference.num_rows()),
        padded_rows_(reference.weights_by_position.cols()),
        channels_(reference.v.cols()),
        lost_{Eigen::VectorXd::Zero(rows_), DoubleMatrix::Zero(rows_, channels_)},
        part_(rows_, channels_) {
    const auto positions = static_cast<std::size_t>(reference.num_positions());
    for (auto* profile :
         {&loss_.lost_mass, &loss_.mass_loss, &loss_.output_loss, &loss_.output_loss_signed, &loss_.bits_lost}) {
      profile->assign(positions, 0.0);
    }
    loss_.lost_of_row.assign(static_cast<std::size_t>(rows_), 0.0);
    for (auto* of_rows : {&shrink_, &terms_.along, &terms_.factor, &terms_.squared}) {
      of_rows->assign(static_cast<std::size_t>(padded_rows_), 0.0F);
    }
  }

  /// Only lost mass. @return whether this way serves
  [[nodiscard]] bool measure_mass();
  /// All the rest too.
  [[nodiscard]] bool measure_all();
  HeadLoss take() { return std::move(loss_); }

 private:
  [[nodiscard]] bool weigh(bool with_outputs);
  void add_evicted_sums(bool with_outputs);
  [[nodiscard]] bool grow_changed(bool with_distortions);
  void add_changed_outputs();
  void add_block(const float* weights, const float* values, std::int64_t num_terms);
  double keep_only(std::int64_t row, Eigen::RowVectorXd& output) const;
  void find_shrinkage();
  void lose_mass();
  void set_mass(Positions positions, const std::vector<float>& lost, std::vector<float>& of_row);
  void finish_rows();
  void attribute_evicted(const kv::TransposedKeys& vectors);
  void attribute_few_rows();
  void attribute_changed(const kv::TransposedKeys& vectors);
  void set_losses(Positions positions, const OutputLosses& losses);
  [[nodiscard]] StoredRows values() const {
    return {reference_.v.data(), table_.v.data(), table_.entry_of.data(), channels_};
  }
  /// @param first_changed  index of the first of the positions among the changed ones, where they are such
  [[nodiscard]] RowBlock block_of(Positions positions, std::int64_t first_changed = -1) {
    float* const growths = first_changed < 0 ? nullptr : growths_->data() + first_changed * growth_stride_;
    return {positions, reference_.weights_by_position.data(), growths, padded_rows_, growth_stride_};
  }

  const HeadReference& reference_;
  const kv::EntryTable& table_;
  TouchedPositions touched_;
  std::int64_t rows_;
  std::int64_t padded_rows_;  ///< to whole registers
  std::int64_t channels_;
  LostSums lost_;
  kv::RowMatrix part_;
  /// Of the changed positions, [changed position, growth_stride_].
  std::optional<kv::ProductSpace> growths_;
  std::int64_t growth_stride_ = 0;
  Distortions distortions_;
  std::vector<float> squares_;  ///< [changed position] |v - vhat|^2
  std::vector<float> crosses_;  ///< [changed position] <v, v - vhat>
  std::vector<float> lengths_;  ///< [changed position] |v|^2
  std::vector<float> shrink_;   ///< [padded row] (S_i - 1) / S_i
  RowTerms terms_;
  kv::RowMatrix vectors_;  ///< [2 padded rows, channel] f_i e_i, then f_i ohat_i
  HeadLoss loss_;
};

/// Adds sum of weights(term, row) * values(term, channel) to u.
void Replay::add_block(const float* weights, const float* values, std::int64_t num_terms) {
  kv::matrix_product({weights, 1, padded_rows_}, rows_, num_terms, values, channels_, part_.data());
  lost_.outputs += part_.cast<double>();
}

void Replay::add_evicted_sums(bool with_outputs) {
  constexpr std::int64_t kAtOnce = 2 * kPositionsAtOnce;
  kv::RowMatrix weights(kAtOnce, padded_rows_);
  kv::RowMatrix values(kAtOnce, channels_);
  for_some(touched_.evicted, kAtOnce, [&](std::int64_t, Positions some) {
    const float* of_rows = rows_at(reference_.weights_by_position, some, weights.data());
    if (with_outputs) add_block(of_rows, rows_at(reference_.v, some, values.data()), std::ssize(some));
    const Eigen::RowVectorXf mass =
        Eigen::Map<const kv::RowMatrix>(of_rows, std::ssize(some), padded_rows_).colwise().sum();
    lost_.mass += mass.head(rows_).transpose().cast<double>();
  });
}

/// Growths of all changed positions. @return whether every exponent is small enough
bool Replay::grow_changed(bool with_distortions) {
  const Positions changed = touched_.changed_positions;
  const kv::TransposedKeys queries(reference_.q, rows_);
  growth_stride_ = queries.stride();
  growths_.emplace(std::ssize(changed) * growth_stride_);
  if (with_distortions) distortions_ = Distortions(std::ssize(changed));
  const StoredRows keys{reference_.k.data(), table_.k.data(), table_.entry_of.data(), channels_};
  kv::ProductSpace differences(kPositionsAtOnce * channels_);
  std::vector<float> biases(kPositionsAtOnce);
  Eigen::RowVectorXf all_gone(padded_rows_);
  bool is_small = true;
  for_some(changed, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    const RowBlock block = block_of(some, first);
    if (with_distortions) {
      take_differences(keys, some, reference_.k_distortion_factors.data(), differences.data(),
                       {.distortions = distortions_.keys.data() + first});
    } else {
      take_differences(keys, some, differences.data());
    }
    queries.multiply(differences.data(), std::ssize(some), -static_cast<float>(reference_.scale), rows_, block.growths);
    std::ranges::transform(some, biases.begin(), [&](std::int32_t position) {
      return table_.bias[static_cast<std::size_t>(table_.entry_of[static_cast<std::size_t>(position)])];
    });
    all_gone.setZero();
    is_small = grow(block, biases.data(), all_gone.data()) && is_small;
    lost_.mass += all_gone.head(rows_).transpose().cast<double>();
  });
  return is_small;
}

/// Apart from the keys, so that the values are still at hand when their losses are attributed.
void Replay::add_changed_outputs() {
  const Positions changed = touched_.changed_positions;
  for (auto* of_positions : {&squares_, &crosses_, &lengths_}) {
    of_positions->resize(static_cast<std::size_t>(kv::whole_lanes(std::ssize(changed))));
  }
  kv::ProductSpace gone(kPositionsAtOnce * padded_rows_);
  kv::ProductSpace held(kPositionsAtOnce * padded_rows_);
  kv::ProductSpace space(kPositionsAtOnce * channels_);
  kv::ProductSpace differences(kPositionsAtOnce * channels_);
  for_some(changed, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    split_weights(block_of(some, first), gone.data(), held.data());
    take_differences(values(), some, reference_.v_distortion_factors.data(), differences.data(),
                     {distortions_.values.data() + first, squares_.data() + first, crosses_.data() + first,
                      lengths_.data() + first});
    add_block(gone.data(), rows_at(reference_.v, some, space.data()), std::ssize(some));
    add_block(held.data(), differences.data(), std::ssize(some));
  });
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
    shrink_[static_cast<std::size_t>(row)] = static_cast<float>(kept > 0 ? -lost_.mass(row) / kept : 0);
  }
}

/// E, E^2 and what attributing them needs. A row that sees nothing touched has no error.
void Replay::finish_rows() {
  const double row_weight = 1.0 / static_cast<double>(rows_);
  vectors_ = kv::RowMatrix::Zero(2 * padded_rows_, channels_);
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
    vectors_.row(row) = (factor * error).cast<float>();
    vectors_.row(padded_rows_ + row) = (factor * output).cast<float>();
    const auto at = static_cast<std::size_t>(row);
    terms_.along[at] = static_cast<float>(factor * output.dot(error));
    terms_.factor[at] = static_cast<float>(factor);
    terms_.squared[at] = static_cast<float>(factor * output.squaredNorm());
  }
}

/// Of all positions. Untouched keys lose only to others that grew: S > 1.
void Replay::lose_mass() {
  for (const std::int32_t position : touched_.evicted) {
    const auto j = static_cast<std::size_t>(position);
    loss_.lost_mass[j] = reference_.attention[j];
    loss_.mass_loss[j] = 1;
  }
  std::vector<float> lost(kPositionsAtOnce);
  std::vector<float> of_row(static_cast<std::size_t>(padded_rows_), 0.0F);
  for_some(touched_.changed_positions, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    lost_of_changed(block_of(some, first), shrink_.data(), of_row.data(), lost.data());
    set_mass(some, lost, of_row);
  });
  if (std::ranges::none_of(shrink_, [](float share) { return share > 0; })) return;
  std::vector<std::int32_t> untouched;
  for (std::size_t j = 0; j < touched_.state.size(); ++j) {
    if (touched_.state[j] == PositionState::untouched) untouched.push_back(static_cast<std::int32_t>(j));
  }
  for_some(untouched, kPositionsAtOnce, [&](std::int64_t, Positions some) {
    lost_of_untouched(block_of(some), shrink_.data(), of_row.data(), lost.data());
    set_mass(some, lost, of_row);
  });
}

/// @param of_row  float32 sums of these positions, which become part of the float64 ones
void Replay::set_mass(Positions positions, const std::vector<float>& lost, std::vector<float>& of_row) {
  for (std::size_t index = 0; index < positions.size(); ++index) {
    const auto j = static_cast<std::size_t>(positions[index]);
    loss_.lost_mass[j] = static_cast<double>(lost[index]) / static_cast<double>(rows_);
    if (reference_.attention[j] > 0) loss_.mass_loss[j] = std::min(1.0, loss_.lost_mass[j] / reference_.attention[j]);
  }
  for (std::size_t row = 0; row < loss_.lost_of_row.size(); ++row) {
    loss_.lost_of_row[row] += static_cast<double>(of_row[row]);
    of_row[row] = 0;
  }
}

void Replay::set_losses(Positions positions, const OutputLosses& losses) {
  for (std::size_t index = 0; index < positions.size(); ++index) {
    const auto j = static_cast<std::size_t>(positions[index]);
    loss_.output_loss_signed[j] = static_cast<double>(losses.signed_loss[index]);
    loss_.output_loss[j] = std::max(0.0, static_cast<double>(losses.loss[index]));
  }
}

void Replay::attribute_evicted(const kv::TransposedKeys& vectors) {
  kv::ProductSpace products(kv::kProductRows * vectors.stride());
  kv::ProductSpace space(kv::kProductRows * channels_);
  std::vector<float> lengths(kv::kProductRows);
  OutputLosses losses{std::vector<float>(kv::kProductRows), std::vector<float>(kv::kProductRows)};
  for_some(touched_.evicted, kv::kProductRows, [&](std::int64_t, Positions some) {
    const float* recorded = rows_at(reference_.v, some, space.data());
    vectors.multiply(recorded, std::ssize(some), 1.0F, 2 * padded_rows_, products.data());
    squared_lengths(recorded, std::ssize(some), channels_, lengths.data());
    loss::attribute_evicted(block_of(some), terms_, {products.data(), nullptr, vectors.stride()},
                            {.values = lengths.data()}, losses);
    set_losses(some, losses);
  });
}

void Replay::attribute_few_rows() {
  kv::ProductSpace vectors(
      vectors_.size());  // on whole lines of the processor's caches: they are loaded for every position
  std::copy_n(vectors_.data(), vectors_.size(), vectors.data());
  OutputLosses losses{std::vector<float>(kPositionsAtOnce), std::vector<float>(kPositionsAtOnce)};
  for_some(touched_.changed_positions, kPositionsAtOnce, [&](std::int64_t first, Positions some) {
    loss::attribute_few_rows(block_of(some, first), terms_, values(), vectors.data(), rows_,
                             {lengths_.data() + first, squares_.data() + first, crosses_.data() + first}, losses);
    set_losses(some, losses);
  });
}

void Replay::attribute_changed(const kv::TransposedKeys& vectors) {
  // As many as their products are few: those of a hundred rows and more fill a processor's second cache.
  const std::int64_t at_once = std::clamp(kProductsAtOnce / vectors.stride() / kv::kProductRows * kv::kProductRows,
                                          kv::kProductRows, kPositionsAtOnce);
  kv::ProductSpace products(at_once * vectors.stride());
  kv::ProductSpace change_products(at_once * vectors.stride());
  kv::ProductSpace space(at_once * channels_);
  kv::ProductSpace differences(at_once * channels_);  // v - vhat
  const auto num_losses = static_cast<std::size_t>(at_once);
  OutputLosses losses{std::vector<float>(num_losses), std::vector<float>(num_losses)};
  for_some(touched_.changed_positions, at_once, [&](std::int64_t first, Positions some) {
    const float* recorded = rows_at(reference_.v, some, space.data());
    take_differences(values(), some, differences.data());
    vectors.multiply(recorded, std::ssize(some), 1.0F, 2 * padded_rows_, products.data());
    vectors.multiply(differences.data(), std::ssize(some), 1.0F, 2 * padded_rows_, change_products.data());
    loss::attribute_changed(block_of(some, first), terms_, {products.data(), change_products.data(), vectors.stride()},
                            {lengths_.data() + first, squares_.data() + first, crosses_.data() + first}, losses);
    set_losses(some, losses);
  });
}

/// @return whether this way serves
bool Replay::weigh(bool with_outputs) {
  if (touched_.has_pools) return false;
  add_evicted_sums(with_outputs);
  Eigen::Map<Eigen::VectorXd>(loss_.lost_of_row.data(), rows_) = lost_.mass;
  if (!touched_.changed_positions.empty()) {
    if (!grow_changed(with_outputs)) return false;
    if (with_outputs) add_changed_outputs();
  }
  find_shrinkage();
  lose_mass();
  return true;
}

bool Replay::measure_mass() {
  return weigh(/*with_outputs=*/false);
}

bool Replay::measure_all() {
  if (!weigh(/*with_outputs=*/true)) return false;
  loss_.bits_lost = bits_lost(touched_, distortions_);
  if (touched_.evicted.empty() && touched_.changed_positions.empty()) return true;
  finish_rows();
  const kv::TransposedKeys vectors(vectors_, 2 * padded_rows_);
  attribute_evicted(vectors);
  if (padded_rows_ <= kFewRows) {
    attribute_few_rows();
  } else {
    attribute_changed(vectors);
  }
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
