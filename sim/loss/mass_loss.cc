#include "loss/mass_loss.h"

#include <algorithm>
#include <utility>

#include "loss/replay_loss.h"

namespace kvtide::loss {

void member_shares(const HeadReference& reference, const ChangedEntry& entry, std::int64_t row,
                   std::vector<double>& shares) {
  shares.assign(entry.members.size(), 1.0);
  if (entry.members.size() == 1) return;
  double sum = 0;
  for (std::size_t m = 0; m < shares.size(); ++m) {
    shares[m] = reference.weights(row, entry.members[m]);
    sum += shares[m];
  }
  for (double& share : shares) share = sum > 0 ? share / sum : 1.0 / static_cast<double>(shares.size());
}

MassLoss mass_loss(const HeadReference& reference, const HeadComparison& comparison) {
  const auto positions = static_cast<std::size_t>(reference.num_positions());
  MassLoss result{std::vector<double>(positions, 0.0), std::vector<double>(positions, 0.0), {}};
  result.of_row.assign(static_cast<std::size_t>(reference.num_rows()), 0.0);
  std::vector<double>& lost = result.lost_mass;
  // An evicted key loses all it had, whatever the row.
  for (const std::int32_t j : comparison.evicted)
    lost[static_cast<std::size_t>(j)] = reference.attention[static_cast<std::size_t>(j)];

  const std::int64_t rows = reference.num_rows();
  const double row_weight = 1.0 / static_cast<double>(rows);
  // Untouched keys shrink only where the others grew: S > 1.
  Eigen::VectorXd shrink = Eigen::VectorXd::Zero(rows);
  Eigen::VectorXd inverse_ratio = Eigen::VectorXd::Zero(rows);
  Eigen::RowVectorXd shrunk = Eigen::RowVectorXd::Zero(reference.num_positions());
  for (std::int64_t row = 0; row < rows; ++row) {
    const double ratio = comparison.mass_ratio(row);
    if (ratio > 0) inverse_ratio(row) = 1.0 / ratio;
    if (!(ratio > 1)) continue;
    shrink(row) = 1.0 - 1.0 / ratio;
    shrunk += row_weight * shrink(row) * reference.weights.row(row);
  }
  Eigen::VectorXd is_untouched = Eigen::VectorXd::Zero(reference.num_positions());
  for (std::size_t j = 0; j < positions; ++j) {
    if (comparison.state[j] != PositionState::untouched) continue;
    lost[j] += shrunk(static_cast<std::int64_t>(j));
    is_untouched(static_cast<std::int64_t>(j)) = 1;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    double& of_row = result.of_row[static_cast<std::size_t>(row)];
    for (const std::int32_t j : comparison.evicted) of_row += reference.weights(row, j);
    if (shrink(row) > 0) of_row += shrink(row) * reference.weights.row(row).dot(is_untouched);
  }
  std::vector<double> shares;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* weights = reference.weights.row(row).data();
    double& of_row = result.of_row[static_cast<std::size_t>(row)];
    const auto lose = [&](std::int32_t j, double gone) {
      lost[static_cast<std::size_t>(j)] += row_weight * gone;
      of_row += gone;
    };
    for (std::size_t c = 0; c < comparison.changed.size(); ++c) {
      const ChangedEntry& entry = comparison.changed[c];
      if (!is_formed(entry, reference.row_positions[static_cast<std::size_t>(row)])) {
        for (const std::int32_t j : entry.members) lose(j, shrink(row) * weights[j]);
        continue;
      }
      const double held = comparison.entry_weights(row, static_cast<std::int64_t>(c)) * inverse_ratio(row);
      if (entry.members.size() > 1) member_shares(reference, entry, row, shares);
      for (std::size_t m = 0; m < entry.members.size(); ++m) {
        const std::int32_t j = entry.members[m];
        lose(j, std::max(0.0, weights[j] - (entry.members.size() > 1 ? shares[m] * held : held)));
      }
    }
  }
  for (std::size_t j = 0; j < positions; ++j) {
    const double all = reference.attention[j];
    if (comparison.state[j] == PositionState::evicted) {
      result.relative[j] = 1;
    } else if (all > 0) {
      result.relative[j] = std::min(1.0, lost[j] / all);
    }
  }
  return result;
}

MassLoss measure_mass(const HeadReference& reference, const kv::HeadCache& cache) {
  std::optional<MassLoss> fast = replay_mass(reference, cache);
  return fast ? std::move(*fast) : mass_loss(reference, compare_head(reference, cache, /*with_outputs=*/false));
}

}  // namespace kvtide::loss
