#include "loss/mass_loss.h"

#include <algorithm>

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
  MassLoss result{std::vector<double>(positions, 0.0), std::vector<double>(positions, 0.0)};
  std::vector<double>& lost = result.lost_mass;
  // An evicted key loses all it had, whatever the row.
  for (const std::int32_t j : comparison.evicted)
    lost[static_cast<std::size_t>(j)] = reference.attention[static_cast<std::size_t>(j)];

  const double row_weight = 1.0 / static_cast<double>(reference.num_rows());
  std::vector<double> shares;
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const double ratio = comparison.mass_ratio(row);
    // Untouched keys shrink only where the others grew: S > 1.
    const double shrink = ratio > 1 ? 1.0 - 1.0 / ratio : 0.0;
    if (shrink > 0) {
      for (std::size_t j = 0; j < positions; ++j) {
        if (comparison.state[j] != PositionState::untouched) continue;
        lost[j] += row_weight * shrink * reference.weights(row, static_cast<std::int64_t>(j));
      }
    }
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    for (std::size_t c = 0; c < comparison.changed.size(); ++c) {
      const ChangedEntry& entry = comparison.changed[c];
      const bool formed = is_formed(entry, query);
      if (formed) member_shares(reference, entry, row, shares);
      const double held =
          formed && ratio > 0 ? comparison.entry_weights(row, static_cast<std::int64_t>(c)) / ratio : 0.0;
      for (std::size_t m = 0; m < entry.members.size(); ++m) {
        const double full = reference.weights(row, entry.members[m]);
        const double gone = formed ? std::max(0.0, full - shares[m] * held) : shrink * full;
        lost[static_cast<std::size_t>(entry.members[m])] += row_weight * gone;
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

}  // namespace kvtide::loss
