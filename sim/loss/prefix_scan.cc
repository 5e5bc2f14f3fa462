#include "loss/prefix_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/units.h"
#include "loss/head_comparison.h"
#include "loss/mass_loss.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kMaxShift = 1 << 24;
constexpr std::int64_t kMaxShifts = 1'000'000;

void check(const PrefixScanSettings& settings, std::int64_t num_positions) {
  if (settings.max_shift < 0 || settings.max_shift > kMaxShift || settings.step < 1 || settings.repeats_after < 0 ||
      settings.max_shift / settings.step >= kMaxShifts) {
    throw InputError(
        fmt::format("prefix scan: expected max_shift in 0..{}, step >= 1 and at most {} shifts, got "
                    "max_shift {}, step {}, repeats_after {}",
                    kMaxShift, kMaxShifts, settings.max_shift, settings.step, settings.repeats_after));
  }
  KVTIDE_ASSERT(settings.shifts.empty() ||
                    (settings.shifts.front() == 0 && std::ranges::is_sorted(settings.shifts, std::less_equal<>()) &&
                     settings.shifts.back() <= settings.max_shift),
                "shifts rise from 0 to max_shift at most");
  for (const std::int64_t position : settings.kept_positions) {
    if (position < 0 || position >= num_positions) {
      throw InputError(fmt::format("prefix scan: position {} lies outside the trace of {}", position, num_positions));
    }
  }
}

double mean_output_error(const HeadReference& reference, const HeadComparison& comparison) {
  if (comparison.identical()) return 0;
  double sum = 0;
  for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
    const double norm = std::max(reference.outputs.row(row).norm(), 1e-12);
    sum += (reference.outputs.row(row) - comparison.outputs.row(row)).norm() / norm;
  }
  return sum / static_cast<double>(reference.num_rows());
}

double kept_share(const std::vector<std::int32_t>& entry_of, const std::vector<std::int64_t>& positions) {
  if (positions.empty()) {
    const auto kept = std::ranges::count_if(entry_of, [](std::int32_t entry) { return entry >= 0; });
    return static_cast<double>(kept) / static_cast<double>(entry_of.size());
  }
  std::int64_t kept = 0;
  for (const std::int64_t position : positions) {
    if (entry_of[static_cast<std::size_t>(position)] >= 0) ++kept;
  }
  return static_cast<double>(kept) / static_cast<double>(positions.size());
}

/// PS of one shift and the largest difference.
struct Sensitivity {
  double mean = 0;
  double worst = 0;
};

/// Fills one shift's cells and says how its profile differs from that of shift 0, which is asked first.
using MeasureShift = std::function<Sensitivity(std::int64_t shift_index, PrefixScan& scan)>;

/// Walks the shifts; a residue that was seen is copied.
PrefixScan walk_shifts(const AttentionReference& reference, const PrefixScanSettings& settings,
                       const MeasureShift& measure) {
  PrefixScan scan;
  scan.num_layers = reference.num_layers();
  for (const auto& layer : reference.layers()) {
    scan.num_heads = std::max(scan.num_heads, static_cast<std::int64_t>(layer.size()));
  }
  scan.shift = settings.shifts;
  if (scan.shift.empty()) {
    for (std::int64_t shift = 0; shift <= settings.max_shift; shift += settings.step) scan.shift.push_back(shift);
  }
  const std::size_t cells = scan.shift.size() * static_cast<std::size_t>(scan.num_layers * scan.num_heads);
  for (auto* values : {&scan.lost_mass, &scan.output_error, &scan.kept_share}) {
    values->assign(cells, std::numeric_limits<double>::quiet_NaN());
  }

  std::vector<std::int64_t> first_with_residue(
      static_cast<std::size_t>(std::min(settings.repeats_after, settings.max_shift + 1)), -1);
  for (std::int64_t index = 0; index < static_cast<std::int64_t>(scan.shift.size()); ++index) {
    if (settings.repeats_after > 0) {
      std::int64_t& seen = first_with_residue[static_cast<std::size_t>(scan.shift[static_cast<std::size_t>(index)] %
                                                                       settings.repeats_after)];
      if (seen >= 0) {
        const std::size_t from = scan.index(seen, 0, 0);
        const std::size_t to = scan.index(index, 0, 0);
        const auto count = static_cast<std::ptrdiff_t>(scan.num_layers * scan.num_heads);
        for (auto* values : {&scan.lost_mass, &scan.output_error, &scan.kept_share}) {
          const auto begin = values->begin() + static_cast<std::ptrdiff_t>(from);
          std::copy(begin, begin + count, values->begin() + static_cast<std::ptrdiff_t>(to));
        }
        scan.sensitivity.push_back(scan.sensitivity[static_cast<std::size_t>(seen)]);
        scan.worst_sensitivity.push_back(scan.worst_sensitivity[static_cast<std::size_t>(seen)]);
        continue;
      }
      seen = index;
    }
    const Sensitivity sensitivity = measure(index, scan);
    scan.sensitivity.push_back(sensitivity.mean);
    scan.worst_sensitivity.push_back(sensitivity.worst);
  }
  return scan;
}

/// Measures every head at one shift, fills that shift's cells and returns the reduced loss profile.
std::vector<double> measure_shift(const AttentionReference& reference, const CompressAtShift& compress,
                                  const PrefixScanSettings& settings, std::int64_t shift_index, PrefixScan& scan) {
  std::vector<std::vector<double>> lost;
  std::vector<std::vector<double>> relative;
  std::vector<const std::vector<double>*> attention;
  const std::int64_t shift = scan.shift[static_cast<std::size_t>(shift_index)];
  for (std::int64_t layer = 0; layer < scan.num_layers; ++layer) {
    const kv::LayerCache cache = compress(layer, shift);
    const auto& heads = reference.layers()[static_cast<std::size_t>(layer)];
    KVTIDE_ASSERT(cache.heads.size() == heads.size(), "as many head caches as reference heads");
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const std::size_t cell = scan.index(shift_index, layer, static_cast<std::int64_t>(head));
      MassLoss mass;
      if (settings.with_output_error) {
        const HeadComparison comparison = compare_head(heads[head], cache.heads[head], true);
        mass = mass_loss(heads[head], comparison);
        scan.output_error[cell] = mean_output_error(heads[head], comparison);
      } else {
        mass = measure_mass(heads[head], cache.heads[head]);
      }
      scan.lost_mass[cell] = 0;
      for (const double value : mass.lost_mass) scan.lost_mass[cell] += value;
      scan.kept_share[cell] = kept_share(cache.heads[head].entries->entry_of, settings.kept_positions);
      lost.push_back(std::move(mass.lost_mass));
      relative.push_back(std::move(mass.relative));
      attention.push_back(&heads[head].attention);
    }
  }
  return reduce_mass_loss(lost, attention, relative, settings.reduction);
}

/// The loss profile of heads that only evict, as its difference from the profile of shift 0. M is 1 where a head
/// evicted and 0 elsewhere, so that L(j) is the sum of the evicting heads' shares of the attention on j (reader), of
/// 1 / heads (mean), or 1 (max).
class EvictionProfile {
 public:
  EvictionProfile(const AttentionReference& reference, HeadReduction reduction)
      : is_max_(reduction == HeadReduction::max), difference_(static_cast<std::size_t>(reference.num_positions())) {
    std::vector<const std::vector<double>*> attention;
    for (const auto& layer : reference.layers()) {
      for (const HeadReference& head : layer) attention.push_back(&head.attention);
    }
    const double equal_share = 1.0 / static_cast<double>(attention.size());
    shares_.assign(attention.size(), std::vector<double>(difference_.size(), is_max_ ? 1.0 : equal_share));
    unshifted_.resize(attention.size());
    num_evicting_.assign(difference_.size(), 0);
    if (reduction != HeadReduction::reader) return;
    for (std::size_t j = 0; j < difference_.size(); ++j) {
      double sum = 0;
      for (const auto* of_head : attention) sum += (*of_head)[j];
      if (!(sum > 0)) continue;
      for (std::size_t head = 0; head < attention.size(); ++head) shares_[head][j] = (*attention[head])[j] / sum;
    }
  }

  /// Once per head before the others: what shift 0 evicts. @return what it adds to the mean loss
  double set_unshifted(std::size_t head, const kv::PositionRuns& evicted) {
    unshifted_[head] = evicted;
    double loss = 0;
    for (const kv::PositionRun& run : evicted) {
      for (auto j = static_cast<std::size_t>(run.begin); j < static_cast<std::size_t>(run.end); ++j) {
        // The largest over heads is 1 as soon as one of them evicts.
        if (!is_max_ || num_evicting_[j] == 0) loss += shares_[head][j];
        ++num_evicting_[j];
      }
    }
    return loss / static_cast<double>(difference_.size());
  }
  void add(std::size_t head, const kv::PositionRuns& evicted) {
    kv::for_each_difference(unshifted_[head], evicted, [&](std::int64_t begin, std::int64_t end, bool is_added) {
      const double sign = is_added ? 1 : -1;
      for (auto j = static_cast<std::size_t>(begin); j < static_cast<std::size_t>(end); ++j) {
        difference_[j] += sign * shares_[head][j];
      }
    });
  }
  /// Ends a shift.
  Sensitivity take() {
    Sensitivity result;
    for (std::size_t j = 0; j < difference_.size(); ++j) {
      double size = std::abs(difference_[j]);
      if (is_max_) {
        // difference_ counts heads; only none against some changes the largest.
        size = (num_evicting_[j] + difference_[j] > 0) == (num_evicting_[j] > 0) ? 0.0 : 1.0;
      }
      result.mean += size;
      result.worst = std::max(result.worst, size);
      difference_[j] = 0;
    }
    if (!difference_.empty()) result.mean /= static_cast<double>(difference_.size());
    return result;
  }

 private:
  bool is_max_;
  std::vector<std::vector<double>> shares_;  ///< [head][position]
  std::vector<kv::PositionRuns> unshifted_;  ///< [head]
  std::vector<double> num_evicting_;         ///< [position] heads that evict it at shift 0
  std::vector<double> difference_;           ///< [position]
};

double kept_share(const kv::PositionRuns& evicted, std::int64_t num_positions,
                  const std::vector<std::int64_t>& positions) {
  if (positions.empty()) {
    return 1.0 - static_cast<double>(kv::num_positions_of(evicted)) / static_cast<double>(num_positions);
  }
  const auto kept = std::ranges::count_if(positions, [&](std::int64_t p) { return !kv::contains(evicted, p); });
  return static_cast<double>(kept) / static_cast<double>(positions.size());
}

}  // namespace

double PrefixScan::relative_sensitivity(std::size_t shift_index) const {
  const double redrawn = 2 * mean_loss * (1 - mean_loss);
  return redrawn > 0 ? sensitivity[shift_index] / redrawn : std::numeric_limits<double>::quiet_NaN();
}

PrefixScan scan_prefix(const AttentionReference& reference, const CompressAtShift& compress,
                       const PrefixScanSettings& settings) {
  check(settings, reference.num_positions());
  std::vector<double> unshifted;
  return walk_shifts(reference, settings, [&](std::int64_t index, PrefixScan& scan) {
    const std::vector<double> profile = measure_shift(reference, compress, settings, index, scan);
    if (index == 0) {
      unshifted = profile;
      for (const double loss : profile) scan.mean_loss += loss / static_cast<double>(profile.size());
    }
    Sensitivity sensitivity;
    for (std::size_t j = 0; j < profile.size(); ++j) {
      const double difference = std::abs(profile[j] - unshifted[j]);
      sensitivity.mean += difference;
      sensitivity.worst = std::max(sensitivity.worst, difference);
    }
    if (!profile.empty()) sensitivity.mean /= static_cast<double>(profile.size());
    return sensitivity;
  });
}

PrefixScan scan_prefix_of_eviction(const AttentionReference& reference, const EvictAtShift& evict,
                                   const PrefixScanSettings& settings) {
  std::vector<EvictionLoss> heads = eviction_losses(reference, settings.with_output_error);
  return scan_prefix_of_eviction(reference, heads, evict, settings);
}

PrefixScan scan_prefix_of_eviction(const AttentionReference& reference, std::vector<EvictionLoss>& heads,
                                   const EvictAtShift& evict, const PrefixScanSettings& settings) {
  check(settings, reference.num_positions());
  KVTIDE_ASSERT(static_cast<std::int64_t>(heads.size()) == reference.num_heads(), "one loss a head");
  EvictionProfile profile(reference, settings.reduction);
  return walk_shifts(reference, settings, [&](std::int64_t index, PrefixScan& scan) {
    std::size_t at = 0;
    for (std::int64_t layer = 0; layer < scan.num_layers; ++layer) {
      const auto evicted = evict(layer, scan.shift[static_cast<std::size_t>(index)]);
      KVTIDE_ASSERT(evicted.size() == reference.layers()[static_cast<std::size_t>(layer)].size(),
                    "as many sets as reference heads");
      for (std::size_t head = 0; head < evicted.size(); ++head, ++at) {
        heads[at].evict(evicted[head]);
        const std::size_t cell = scan.index(index, layer, static_cast<std::int64_t>(head));
        scan.lost_mass[cell] = heads[at].lost_mass();
        scan.output_error[cell] = heads[at].output_error();
        scan.kept_share[cell] = kept_share(evicted[head], reference.num_positions(), settings.kept_positions);
        if (index == 0) scan.mean_loss += profile.set_unshifted(at, evicted[head]);
        profile.add(at, evicted[head]);
      }
    }
    return profile.take();
  });
}

}  // namespace kvtide::loss
