#include "experiment/prefix_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiment/loss_evaluation.h"
#include "kv/compression/evicted_runs.h"
#include "kv/partition.h"
#include "loss/curve_period.h"
#include "loss/prefix_scan.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kBlocksScanned = 4;
/// Blocks from this size on are scanned in steps of two tokens, which see their period where they divide it.
constexpr std::int64_t kLargeBlock = 129;

/// Tokens of a block that a stage treats as one: what a shift moves against the block's content.
std::int64_t stage_width(const kv::Compression& setting) {
  std::int64_t width = 1;
  for (const kv::Stage& stage : setting.stages) {
    if (const auto* pool = std::get_if<kv::Pool>(&stage)) width = std::max<std::int64_t>(width, pool->width);
    if (const auto* quantize = std::get_if<kv::Quantize>(&stage)) {
      width = std::max<std::int64_t>(width, quantize->group);
    }
  }
  return width;
}

/// Fills in which shifts are measured. @param is_cheap  else every shift is a compression of the whole trace
void choose_shifts(const kv::Compression& setting, bool is_cheap, std::int64_t num_positions,
                   loss::PrefixScanSettings& scan) {
  constexpr std::int64_t kMostDense = 8;
  scan.max_shift = std::min(kBlocksScanned * setting.block_size, num_positions);
  if (is_cheap) {
    scan.step = setting.block_size < kLargeBlock || setting.block_size % 2 == 1 ? 1 : 2;
    return;
  }
  // 1: a prefix changes nothing, so any shifts will do. 0: nothing repeats.
  scan.repeats_after = kv::prefix_period(setting);
  const std::int64_t period = scan.repeats_after > 1 ? scan.repeats_after : scan.max_shift + 1;
  scan.shifts =
      loss::sampled_shifts(scan.max_shift, period, std::clamp<std::int64_t>(stage_width(setting), 2, kMostDense));
}

/// NaN where the curve is not seen to repeat.
double prefix_period(const loss::PrefixScanSettings& scan, const loss::PrefixScan& found) {
  const std::int64_t tokens = scan.shifts.empty() ? loss::find_curve_period(found.sensitivity).samples * scan.step
                              : scan.repeats_after > 1
                                  ? loss::find_residue_period(found.shift, found.sensitivity, scan.repeats_after)
                                  : 0;
  return tokens > 0 ? static_cast<double>(tokens) : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t padding_behind(const kv::Compression& setting, std::int64_t shift) {
  return kv::padding_after(setting, setting.partition.prefix_tokens + shift);
}

/// Share of the attention on the asked fact's digits that is still kept, by shift: heads count as much as they read.
std::vector<double> probe_success(const loss::PrefixScan& scan, const TraceInputs& trace,
                                  const std::vector<std::int64_t>& digits) {
  std::vector<double> success;
  for (std::size_t shift = 0; shift < scan.shift.size(); ++shift) {
    double kept = 0;
    double read = 0;
    for (std::int64_t layer = 0; layer < scan.num_layers; ++layer) {
      const auto& heads = trace.reference().layers()[static_cast<std::size_t>(layer)];
      for (std::size_t head = 0; head < heads.size(); ++head) {
        double attention = 0;
        for (const std::int64_t digit : digits) attention += heads[head].attention[static_cast<std::size_t>(digit)];
        read += attention;
        kept += attention *
                scan.kept_share[scan.index(static_cast<std::int64_t>(shift), layer, static_cast<std::int64_t>(head))];
      }
    }
    success.push_back(read > 0 ? kept / read : std::numeric_limits<double>::quiet_NaN());
  }
  return success;
}

std::vector<std::int64_t> asked_digits(const TraceInputs& trace) {
  for (const attention::Probe& probe : trace.probes()) {
    if (probe.is_asked) return probe.digit_positions;
  }
  return {};
}

}  // namespace

void evaluate_prefix_scan(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result) {
  const kv::LayerBudget& budget = run.setting.layer_budget;
  const bool by_runs = !setting.stages.empty() && kv::only_evicts(setting);
  const std::vector<std::int64_t> digits = asked_digits(trace);
  loss::PrefixScanSettings scan;
  choose_shifts(setting, by_runs, trace.num_compressed(), scan);
  scan.with_output_error = false;
  scan.reduction = run.setting.loss.heads;
  scan.kept_positions = digits;
  // The grid may be the scores' own; the layer's keep ratio is not.
  const auto scores_at = [&](std::int64_t layer, std::int64_t shift) {
    return scores_for(kv::behind_prefix(setting, shift), budget, trace)->scores[static_cast<std::size_t>(layer)];
  };
  const auto moved_by = [&](std::int64_t layer, std::int64_t shift) {
    return kv::behind_prefix(trace.setting_of_layer(setting, budget, static_cast<std::size_t>(layer)), shift);
  };
  const auto compress = [&](std::int64_t layer, std::int64_t shift) {
    return kv::compress_layer(moved_by(layer, shift), trace.num_compressed(), trace.info().num_kv_heads,
                              trace.info().head_dim, scores_at(layer, shift),
                              &trace.layers()[static_cast<std::size_t>(layer)]);
  };
  const auto evict = [&](std::int64_t layer, std::int64_t shift) {
    return kv::evicted_runs(moved_by(layer, shift), trace.num_compressed(), scores_at(layer, shift));
  };
  const loss::PrefixScan found = by_runs ? loss::scan_prefix_of_eviction(trace.reference(), evict, scan)
                                         : loss::scan_prefix(trace.reference(), compress, scan);
  std::vector<double> relative;
  for (std::size_t index = 0; index < found.shift.size(); ++index) {
    relative.push_back(found.relative_sensitivity(index));
  }
  std::vector<std::int64_t> padding;
  for (const std::int64_t shift : found.shift) padding.push_back(padding_behind(setting, shift));

  result.dimensions.push_back({"prefix/shift", found.shift, "Tokens put in front of the text", "token"});
  const auto add = [&](const char* name, auto values, const char* long_name, const char* units) {
    result.arrays.push_back({fmt::format("prefix/{}", name), std::move(values), {"prefix/shift"}, long_name, units});
  };
  add("sensitivity", found.sensitivity, "Mean change of a position's loss", "1");
  add("worst_sensitivity", found.worst_sensitivity, "Largest change of a position's loss", "1");
  add("relative_sensitivity", relative, "Mean change of a position's loss over that of a new draw of what goes", "1");
  add("padding", padding, "Tokens the partition adds behind the text in front", "token");
  if (!digits.empty()) {
    add("probe_success", probe_success(found, trace, digits),
        "Share of the attention on the asked fact's digits that is kept", "1");
  }

  auto& numbers = result.numbers;
  const auto largest = [](const std::vector<double>& values) {
    return values.empty() ? 0.0 : *std::ranges::max_element(values);
  };
  numbers["prefix_sensitivity"] = largest(found.sensitivity);
  numbers["prefix_worst"] = largest(found.worst_sensitivity);
  numbers["prefix_relative"] = largest(relative);
  const auto two = std::ranges::find(found.shift, 2);
  if (two != found.shift.end()) {
    numbers["prefix_sensitivity_two"] = found.sensitivity[static_cast<std::size_t>(two - found.shift.begin())];
  }
  numbers["prefix_period"] = prefix_period(scan, found);
  numbers["padding_tokens"] = static_cast<double>(kv::mean_padding(setting));
}

}  // namespace kvtide::experiment
