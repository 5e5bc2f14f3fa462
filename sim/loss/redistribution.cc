#include "loss/redistribution.h"

#include <algorithm>

#include "loss/head_comparison.h"
#include "loss/mass_loss.h"

namespace kvtide::loss {
namespace {

/// [position] 1 where an evicted position is at most `reach` away.
std::vector<std::uint8_t> beside_gaps(const HeadComparison& comparison, std::int64_t reach) {
  std::vector<std::uint8_t> is_beside(comparison.state.size(), 0);
  const auto last = static_cast<std::int64_t>(is_beside.size()) - 1;
  for (const std::int32_t evicted : comparison.evicted) {
    const std::int64_t begin = std::max<std::int64_t>(0, evicted - reach);
    const std::int64_t end = std::min<std::int64_t>(last, evicted + reach);
    for (std::int64_t j = begin; j <= end; ++j) is_beside[static_cast<std::size_t>(j)] = 1;
  }
  return is_beside;
}

/// [position] sum_i w_i max(0, atilde_ij - a_ij)
std::vector<double> gains(const HeadReference& reference, const HeadComparison& comparison) {
  std::vector<double> gained(comparison.state.size(), 0.0);
  const double row_weight = 1.0 / static_cast<double>(reference.num_rows());
  std::vector<double> shares;
  Eigen::RowVectorXd if_untouched = Eigen::RowVectorXd::Zero(reference.num_positions());
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const double ratio = comparison.mass_ratio(row);
    if (!(ratio > 0)) continue;
    const std::int64_t query = reference.row_positions[static_cast<std::size_t>(row)];
    const auto add = [&](std::int64_t j, double now) {
      gained[static_cast<std::size_t>(j)] += row_weight * std::max(0.0, now - reference.weights(row, j));
    };
    if (ratio < 1) if_untouched += row_weight * (1 / ratio - 1) * reference.weights.row(row);
    for (std::size_t c = 0; c < comparison.changed.size(); ++c) {
      const ChangedEntry& entry = comparison.changed[c];
      const double held = comparison.entry_weights(row, static_cast<std::int64_t>(c));
      if (is_formed(entry, query)) {
        member_shares(reference, entry, row, shares);
        for (std::size_t member = 0; member < entry.members.size(); ++member) {
          add(entry.members[member], shares[member] * held / ratio);
        }
      } else {
        for (const std::int32_t member : entry.members) add(member, reference.weights(row, member) / ratio);
      }
    }
  }
  for (std::size_t j = 0; j < comparison.state.size(); ++j) {
    if (comparison.state[j] == PositionState::untouched) gained[j] = if_untouched(static_cast<std::int64_t>(j));
  }
  return gained;
}

Receiver receiver_of(std::int64_t position, bool is_beside, const Surroundings& around) {
  if (position >= around.num_compressed) return Receiver::later;
  if (position < around.sinks) return Receiver::sinks;
  if (position >= around.num_compressed - around.window) return Receiver::window;
  return is_beside ? Receiver::beside_gap : Receiver::elsewhere;
}

}  // namespace

std::vector<double> redistribution(const std::vector<HeadReference>& heads, const kv::LayerCache& cache,
                                   const Surroundings& surroundings) {
  std::vector<double> by_receiver(kNumReceivers, 0.0);
  for (std::size_t head = 0; head < heads.size(); ++head) {
    const HeadComparison comparison = compare_head(heads[head], cache.heads[head], false);
    const std::vector<double> gained = gains(heads[head], comparison);
    const std::vector<std::uint8_t> is_beside = beside_gaps(comparison, surroundings.reach);
    for (std::size_t j = 0; j < gained.size(); ++j) {
      const Receiver receiver = receiver_of(static_cast<std::int64_t>(j), is_beside[j] != 0, surroundings);
      by_receiver[static_cast<std::size_t>(receiver)] += gained[j] / static_cast<double>(heads.size());
    }
  }
  return by_receiver;
}

}  // namespace kvtide::loss
