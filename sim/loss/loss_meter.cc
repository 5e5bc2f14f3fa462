#include "loss/loss_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "loss/attention_rows.h"
#include "loss/bits_lost.h"
#include "loss/head_comparison.h"
#include "loss/mass_loss.h"
#include "loss/replay_loss.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute.
constexpr double kSmallestOutput = 1e-12;

/// Rows of a matrix in float64 with zeros behind their channels (padded_channels).
std::vector<double> padded_rows(const DoubleMatrix& rows) {
  const std::int64_t width = padded_channels(rows.cols());
  std::vector<double> padded(static_cast<std::size_t>(rows.rows() * width), 0.0);
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    std::copy_n(rows.row(row).data(), rows.cols(), padded.begin() + row * width);
  }
  return padded;
}

/// A stored entry's omega_ij r_ie for every row and member, and its members' a_ij; 0 for a row before which it is not formed.
struct EntryWeights {
  std::vector<double> full;  ///< [member, row]
  std::vector<double> held;  ///< [member, row]
};

void weigh_entry(const HeadReference& reference, const HeadComparison& comparison, std::size_t index,
                 EntryWeights& weights, std::vector<double>& shares) {
  const ChangedEntry& entry = comparison.changed[index];
  const auto rows = static_cast<std::size_t>(reference.num_rows());
  weights.full.assign(entry.members.size() * rows, 0.0);
  weights.held.assign(entry.members.size() * rows, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t query = reference.row_positions[row];
    if (query < comparison.first_touched || !is_formed(entry, query)) continue;
    const auto row_index = static_cast<std::int64_t>(row);
    const double held = comparison.entry_weights(row_index, static_cast<std::int64_t>(index));
    member_shares(reference, entry, row_index, shares);
    for (std::size_t m = 0; m < shares.size(); ++m) {
      weights.full[m * rows + row] = reference.weights(row_index, entry.members[m]);
      weights.held[m * rows + row] = shares[m] * held;
    }
  }
}

/// Adds the touched positions' delta_ij to C and C+, and E.
void attribute_output_error(const HeadReference& reference, const HeadComparison& comparison,
                            const kv::EntryTable& table, HeadLoss& loss) {
  const std::int64_t num_rows = reference.num_rows();
  const double row_weight = 1.0 / static_cast<double>(num_rows);
  const DoubleMatrix error = reference.outputs - comparison.outputs;
  std::vector<double> factors(static_cast<std::size_t>(num_rows), 0.0);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (reference.row_positions[static_cast<std::size_t>(row)] < comparison.first_touched) continue;
    const double norm = std::max(reference.outputs.row(row).norm(), kSmallestOutput);
    const double relative = error.row(row).norm() / norm;
    loss.output_error += row_weight * relative;
    loss.output_error_squared += row_weight * relative * relative;
    factors[static_cast<std::size_t>(row)] = row_weight / (norm * norm);
  }
  const std::vector<double> outputs = padded_rows(comparison.outputs);
  const std::vector<double> errors = padded_rows(error);
  const std::int64_t width = padded_channels(reference.v.cols());
  const ChangeRows rows{num_rows, width, outputs.data(), errors.data(), factors.data()};
  std::vector<double> value(static_cast<std::size_t>(width), 0.0);
  std::vector<double> stored(static_cast<std::size_t>(width), 0.0);
  const auto attribute = [&](std::int32_t j, const double* full, const double* held) {
    const float* of_position = reference.v.row(j).data();
    std::copy(of_position, of_position + reference.v.cols(), value.begin());
    const OutputShare share = output_share(rows, full, held, value.data(), stored.data());
    loss.output_loss_signed[static_cast<std::size_t>(j)] += share.signed_loss;
    loss.output_loss[static_cast<std::size_t>(j)] += share.loss;
  };
  std::vector<double> full(static_cast<std::size_t>(num_rows));
  const std::vector<double> nothing(static_cast<std::size_t>(num_rows), 0.0);
  for (const std::int32_t j : comparison.evicted) {
    for (std::int64_t row = 0; row < num_rows; ++row) full[static_cast<std::size_t>(row)] = reference.weights(row, j);
    attribute(j, full.data(), nothing.data());
  }
  EntryWeights weights;
  std::vector<double> shares;
  for (std::size_t index = 0; index < comparison.changed.size(); ++index) {
    const ChangedEntry& entry = comparison.changed[index];
    weigh_entry(reference, comparison, index, weights, shares);
    const float* of_entry = table.v.row(entry.entry).data();
    std::copy(of_entry, of_entry + table.v.cols(), stored.begin());
    for (std::size_t m = 0; m < entry.members.size(); ++m) {
      const std::size_t first = m * static_cast<std::size_t>(num_rows);
      attribute(entry.members[m], weights.full.data() + first, weights.held.data() + first);
    }
  }
}

void accumulate(std::vector<double>& sum, const std::vector<double>& term, double scale, bool largest) {
  for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = largest ? std::max(sum[j], term[j]) : sum[j] + scale * term[j];
}

/// Adds a head's rows to their queries, each query head of the group with its share.
void add_queries(const std::vector<double>& of_row, std::int64_t num_queries, double head_weight,
                 std::vector<double>& of_query) {
  const auto queries = static_cast<std::size_t>(num_queries);
  of_query.resize(queries, 0.0);
  const double weight = head_weight * static_cast<double>(queries) / static_cast<double>(of_row.size());
  for (std::size_t row = 0; row < of_row.size(); ++row) of_query[row % queries] += weight * of_row[row];
}

}  // namespace

HeadLoss measure_head(const HeadReference& reference, const kv::HeadCache& cache) {
  std::optional<HeadLoss> fast = replay_loss(reference, cache);
  return fast ? std::move(*fast) : measure_head_in_float64(reference, cache);
}

HeadLoss measure_head_in_float64(const HeadReference& reference, const kv::HeadCache& cache) {
  const HeadComparison comparison = compare_head(reference, cache, /*with_outputs=*/true);
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  HeadLoss loss;
  loss.output_loss.assign(positions, 0.0);
  loss.output_loss_signed.assign(positions, 0.0);
  MassLoss mass = mass_loss(reference, comparison);
  loss.lost_mass = std::move(mass.lost_mass);
  loss.mass_loss = std::move(mass.relative);
  loss.lost_of_row = std::move(mass.of_row);
  loss.bits_lost = bits_lost(reference, comparison, *cache.entries);
  if (!comparison.identical()) attribute_output_error(reference, comparison, *cache.entries, loss);
  return loss;
}

std::vector<double> reduce_mass_loss(const std::vector<std::vector<double>>& lost,
                                     const std::vector<const std::vector<double>*>& attention,
                                     const std::vector<std::vector<double>>& relative, HeadReduction reduction) {
  const std::size_t positions = lost.empty() ? 0 : lost.front().size();
  std::vector<double> profile(positions, 0.0);
  for (std::size_t j = 0; j < positions; ++j) {
    double lost_sum = 0;
    double attention_sum = 0;
    double relative_sum = 0;
    double largest = 0;
    for (std::size_t head = 0; head < lost.size(); ++head) {
      lost_sum += lost[head][j];
      attention_sum += (*attention[head])[j];
      relative_sum += relative[head][j];
      largest = std::max(largest, relative[head][j]);
    }
    const double mean = relative_sum / static_cast<double>(lost.size());
    switch (reduction) {
      case HeadReduction::reader:
        profile[j] = attention_sum > 0 ? std::min(1.0, lost_sum / attention_sum) : mean;
        break;
      case HeadReduction::mean:
        profile[j] = mean;
        break;
      case HeadReduction::max:
        profile[j] = largest;
        break;
    }
  }
  return profile;
}

PositionLoss measure_loss(const AttentionReference& reference, const std::vector<kv::LayerCache>& caches,
                          HeadReduction reduction) {
  KVTIDE_ASSERT(caches.size() == reference.layers().size(), "as many layer caches as reference layers");
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  const double head_weight = 1.0 / static_cast<double>(std::max<std::int64_t>(1, reference.num_heads()));
  const bool largest = reduction == HeadReduction::max;
  PositionLoss loss;
  for (auto* profile :
       {&loss.lost_mass, &loss.attention, &loss.output_loss, &loss.output_loss_signed, &loss.bits_lost}) {
    profile->assign(positions, 0.0);
  }
  std::vector<std::vector<double>> lost;
  std::vector<const std::vector<double>*> attention;
  double error_squared = 0;
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    const auto& heads = reference.layers()[layer];
    KVTIDE_ASSERT(caches[layer].heads.size() == heads.size(), "as many head caches as reference heads");
    for (std::size_t head = 0; head < heads.size(); ++head) {
      HeadLoss one = measure_head(heads[head], caches[layer].heads[head]);
      accumulate(loss.lost_mass, one.lost_mass, head_weight, largest);
      accumulate(loss.attention, heads[head].attention, head_weight, false);
      accumulate(loss.output_loss, one.output_loss, head_weight, largest);
      accumulate(loss.output_loss_signed, one.output_loss_signed, head_weight, false);
      accumulate(loss.bits_lost, one.bits_lost, head_weight, largest);
      loss.output_error += head_weight * one.output_error;
      error_squared += head_weight * one.output_error_squared;
      for (const double mass : one.lost_mass) loss.lost_attention += head_weight * mass;
      add_queries(one.lost_of_row, heads[head].num_queries, head_weight, loss.lost_of_query);
      lost.push_back(std::move(one.lost_mass));
      attention.push_back(&heads[head].attention);
      loss.head_mass_loss.push_back(std::move(one.mass_loss));
    }
  }
  loss.output_error_rms = std::sqrt(error_squared);
  loss.mass_loss = reduce_mass_loss(lost, attention, loss.head_mass_loss, reduction);
  return loss;
}

}  // namespace kvtide::loss
