#include "loss/prefix_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

double kept_share(const HeadComparison& comparison, const std::vector<std::int64_t>& positions) {
  if (positions.empty()) {
    return 1.0 - static_cast<double>(comparison.evicted.size()) / static_cast<double>(comparison.state.size());
  }
  std::int64_t kept = 0;
  for (const std::int64_t position : positions) {
    if (comparison.state[static_cast<std::size_t>(position)] != PositionState::evicted) ++kept;
  }
  return static_cast<double>(kept) / static_cast<double>(positions.size());
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
      const HeadComparison comparison = compare_head(heads[head], cache.heads[head], settings.with_output_error);
      MassLoss mass = mass_loss(heads[head], comparison);
      const std::size_t cell = scan.index(shift_index, layer, static_cast<std::int64_t>(head));
      scan.lost_mass[cell] = 0;
      for (const double value : mass.lost_mass) scan.lost_mass[cell] += value;
      if (settings.with_output_error) scan.output_error[cell] = mean_output_error(heads[head], comparison);
      scan.kept_share[cell] = kept_share(comparison, settings.kept_positions);
      lost.push_back(std::move(mass.lost_mass));
      relative.push_back(std::move(mass.relative));
      attention.push_back(&heads[head].attention);
    }
  }
  return reduce_mass_loss(lost, attention, relative, settings.reduction);
}

}  // namespace

PrefixScan scan_prefix(const AttentionReference& reference, const CompressAtShift& compress,
                       const PrefixScanSettings& settings) {
  check(settings, reference.num_positions());
  PrefixScan scan;
  scan.num_layers = reference.num_layers();
  for (const auto& layer : reference.layers()) {
    scan.num_heads = std::max(scan.num_heads, static_cast<std::int64_t>(layer.size()));
  }
  for (std::int64_t shift = 0; shift <= settings.max_shift; shift += settings.step) scan.shift.push_back(shift);
  const std::size_t cells = scan.shift.size() * static_cast<std::size_t>(scan.num_layers * scan.num_heads);
  for (auto* values : {&scan.lost_mass, &scan.output_error, &scan.kept_share}) {
    values->assign(cells, std::numeric_limits<double>::quiet_NaN());
  }

  std::vector<std::int64_t> first_with_residue(
      static_cast<std::size_t>(std::min(settings.repeats_after, settings.max_shift + 1)), -1);
  std::vector<double> unshifted;
  for (std::int64_t index = 0; index < static_cast<std::int64_t>(scan.shift.size()); ++index) {
    std::int64_t* seen = nullptr;
    if (settings.repeats_after > 0) {
      seen = &first_with_residue[static_cast<std::size_t>(scan.shift[static_cast<std::size_t>(index)] %
                                                          settings.repeats_after)];
      if (*seen >= 0) {
        const std::size_t from = scan.index(*seen, 0, 0);
        const std::size_t to = scan.index(index, 0, 0);
        const auto count = static_cast<std::ptrdiff_t>(scan.num_layers * scan.num_heads);
        for (auto* values : {&scan.lost_mass, &scan.output_error, &scan.kept_share}) {
          const auto begin = values->begin() + static_cast<std::ptrdiff_t>(from);
          std::copy(begin, begin + count, values->begin() + static_cast<std::ptrdiff_t>(to));
        }
        scan.sensitivity.push_back(scan.sensitivity[static_cast<std::size_t>(*seen)]);
        scan.worst_sensitivity.push_back(scan.worst_sensitivity[static_cast<std::size_t>(*seen)]);
        continue;
      }
      *seen = index;
    }
    const std::vector<double> profile = measure_shift(reference, compress, settings, index, scan);
    if (index == 0) unshifted = profile;
    double sum = 0;
    double worst = 0;
    for (std::size_t j = 0; j < profile.size(); ++j) {
      const double difference = std::abs(profile[j] - unshifted[j]);
      sum += difference;
      worst = std::max(worst, difference);
    }
    scan.sensitivity.push_back(profile.empty() ? 0.0 : sum / static_cast<double>(profile.size()));
    scan.worst_sensitivity.push_back(worst);
  }
  return scan;
}

}  // namespace kvtide::loss
