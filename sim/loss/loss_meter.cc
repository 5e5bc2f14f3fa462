#include "loss/loss_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "loss/bits_lost.h"
#include "loss/evicted_loss.h"
#include "loss/head_comparison.h"
#include "loss/mass_loss.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute.
constexpr double kSmallestOutput = 1e-12;

/// Adds the touched positions' delta_ij to C and C+, row by row, and E.
void attribute_output_error(const HeadReference& reference, const HeadComparison& comparison,
                            const kv::EntryTable& table, HeadLoss& loss) {
  const double row_weight = 1.0 / static_cast<double>(reference.num_rows());
  const DoubleMatrix values = reference.v.cast<double>();
  DoubleMatrix changed_values(static_cast<std::int64_t>(comparison.changed.size()), reference.v.cols());
  for (std::int64_t c = 0; c < changed_values.rows(); ++c) {
    changed_values.row(c) = table.v.row(comparison.changed[static_cast<std::size_t>(c)].entry).cast<double>();
  }
  std::vector<double> shares;
  Eigen::RowVectorXd delta(reference.v.cols());
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    if (query < comparison.first_touched) continue;
    const Eigen::RowVectorXd output = comparison.outputs.row(row);
    const Eigen::RowVectorXd error = reference.outputs.row(row) - output;
    const double norm = std::max(reference.outputs.row(row).norm(), kSmallestOutput);
    const double relative = error.norm() / norm;
    loss.output_error += row_weight * relative;
    loss.output_error_squared += row_weight * relative * relative;
    const double factor = row_weight / (norm * norm);
    const auto attribute = [&](std::int32_t j) {
      loss.output_loss_signed[static_cast<std::size_t>(j)] += factor * delta.dot(error);
      loss.output_loss[static_cast<std::size_t>(j)] += factor * delta.squaredNorm();
    };
    for (const std::int32_t j : comparison.evicted) {
      const double weight = reference.weights(row, j);
      if (weight == 0) continue;
      delta.noalias() = weight * (values.row(j) - output);
      attribute(j);
    }
    for (std::size_t c = 0; c < comparison.changed.size(); ++c) {
      const ChangedEntry& entry = comparison.changed[c];
      if (!is_formed(entry, query)) continue;
      const auto index = static_cast<std::int64_t>(c);
      const double held = comparison.entry_weights(row, index);
      member_shares(reference, entry, row, shares);
      for (std::size_t m = 0; m < entry.members.size(); ++m) {
        const std::int32_t j = entry.members[m];
        delta.noalias() = reference.weights(row, j) * (values.row(j) - output) -
                          shares[m] * held * (changed_values.row(index) - output);
        attribute(j);
      }
    }
  }
}

void accumulate(std::vector<double>& sum, const std::vector<double>& term, double scale, bool largest) {
  for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = largest ? std::max(sum[j], term[j]) : sum[j] + scale * term[j];
}

}  // namespace

HeadLoss measure_head(const HeadReference& reference, const kv::HeadCache& cache) {
  if (cache.entries && cache.entries->is_recorded) return evicted_loss(reference, cache);
  const HeadComparison comparison = compare_head(reference, cache, /*with_outputs=*/true);
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  HeadLoss loss;
  loss.output_loss.assign(positions, 0.0);
  loss.output_loss_signed.assign(positions, 0.0);
  MassLoss mass = mass_loss(reference, comparison);
  loss.lost_mass = std::move(mass.lost_mass);
  loss.mass_loss = std::move(mass.relative);
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
