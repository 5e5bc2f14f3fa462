#include "experiment/loss_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "kv/compression/evicted_runs.h"
#include "kv/partition.h"
#include "loss/jump_fold.h"
#include "loss/loss_meter.h"
#include "loss/periodicity.h"
#include "loss/phase_profile.h"
#include "loss/position_scan.h"
#include "loss/prefix_scan.h"
#include "loss/span_statistics.h"

namespace kvtide::experiment {
namespace {

/// Shifts of the prefix scan besides 0: 1, 2, then evenly up to two blocks; enough to see the period, few enough to be
/// quick.
constexpr std::int64_t kPrefixShifts = 64;

const std::vector<double>& chosen_metric(LossMetric metric, const loss::PositionLoss& loss) {
  switch (metric) {
    case LossMetric::mass_loss:
      return loss.mass_loss;
    case LossMetric::output_loss:
      return loss.output_loss;
    case LossMetric::bits_lost:
      return loss.bits_lost;
  }
  return loss.mass_loss;
}

std::vector<kv::LayerCache> compress_trace(const kv::Compression& setting, const kv::LayerBudget& budget,
                                           const TraceInputs& trace) {
  const auto scores = scores_for(setting, budget, trace);
  std::vector<kv::LayerCache> caches;
  for (std::size_t layer = 0; layer < trace.layers().size(); ++layer) {
    caches.push_back(kv::compress_layer(trace.setting_of_layer(setting, budget, layer), trace.num_compressed(),
                                        trace.info().num_kv_heads, trace.info().head_dim, scores->scores[layer],
                                        &trace.layers()[layer]));
  }
  return caches;
}

std::vector<std::uint8_t> protected_positions(const kv::Compression& setting, std::int64_t num_positions) {
  std::vector<std::uint8_t> is_protected(static_cast<std::size_t>(num_positions), 0);
  for (const kv::Block& block : kv::partition_blocks(setting, num_positions)) {
    if (!block.is_protected) continue;
    std::fill(is_protected.begin() + block.begin, is_protected.begin() + block.end, std::uint8_t{1});
  }
  return is_protected;
}

std::vector<double> head_of(const std::vector<double>& values, std::int64_t count) {
  return {values.begin(), values.begin() + count};
}

void add_position_arrays(const loss::PositionLoss& loss, std::int64_t num_positions, RunResult& result) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(num_positions));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  result.dimensions.push_back({"loss/position", positions, "Position in the trace", "token"});
  const auto add = [&](const char* name, const std::vector<double>& values, const char* long_name, const char* units) {
    result.arrays.push_back(
        {fmt::format("loss/{}", name), head_of(values, num_positions), {"loss/position"}, long_name, units});
  };
  add("mass_loss", loss.mass_loss, "Share of a position's attention that is lost, L", "1");
  add("lost_mass", loss.lost_mass, "Attention lost at a position, mean over heads", "1");
  add("attention", loss.attention, "Attention a position receives from the measured queries with the full cache", "1");
  add("output_loss", loss.output_loss, "Unsigned contribution to the squared output error, C+", "1");
  add("output_loss_signed", loss.output_loss_signed, "Additive contribution to the squared output error, C", "1");
  add("bits_lost", loss.bits_lost, "Bits lost per stored element of K and V against fp16", "bit");
}

void add_detail(const std::vector<kv::LayerCache>& caches, const loss::PositionLoss& loss, const TraceInputs& trace,
                RunResult& result) {
  std::vector<std::int64_t> heads(static_cast<std::size_t>(trace.info().num_kv_heads));
  std::iota(heads.begin(), heads.end(), std::int64_t{0});
  result.dimensions.push_back({"loss_by_head/layer", trace.info().layers, "Recorded model layer", "1"});
  result.dimensions.push_back({"loss_by_head/kv_head", heads, "KV head", "1"});
  const std::int64_t num_positions = trace.num_compressed();
  std::vector<std::int64_t> positions(static_cast<std::size_t>(num_positions));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  result.dimensions.push_back({"loss_by_head/position", positions, "Position in the trace", "token"});
  std::vector<std::uint8_t> kept;
  std::vector<double> by_head;
  std::size_t head_index = 0;
  for (const kv::LayerCache& layer : caches) {
    for (const kv::HeadCache& head : layer.heads) {
      for (std::int64_t position = 0; position < num_positions; ++position) {
        kept.push_back(head.entries->entry_of[static_cast<std::size_t>(position)] >= 0 ? 1 : 0);
        by_head.push_back(loss.head_mass_loss[head_index][static_cast<std::size_t>(position)]);
      }
      ++head_index;
    }
  }
  const std::vector<std::string> dimensions{"loss_by_head/layer", "loss_by_head/kv_head", "loss_by_head/position"};
  result.arrays.push_back({"loss_by_head/kept", kept, dimensions, "1 where the position is still stored", "1"});
  result.arrays.push_back(
      {"loss_by_head/mass_loss", by_head, dimensions, "Share of a position's attention that the head loses, M", "1"});
}

void add_phase(std::span<const double> profile, const std::vector<std::vector<double>>& by_head,
               const std::vector<std::uint8_t>& is_protected, const loss::PeriodVerdict& verdict,
               std::int64_t block_size, std::int64_t grid_offset, RunResult& result) {
  // Folded at what was found; without a period at the block size, where a reader would look for one.
  const bool has_period = std::isfinite(verdict.period);
  const std::int64_t period = has_period ? std::llround(verdict.period) : block_size;
  const std::int64_t offset =
      has_period && std::isfinite(verdict.grid_offset) ? std::llround(verdict.grid_offset) : grid_offset;
  if (period > static_cast<std::int64_t>(profile.size())) return;
  const loss::PhaseProfile fold = loss::fold_by_phase(profile, period, offset, period, is_protected);
  std::vector<std::int64_t> phases(fold.mean.size());
  std::iota(phases.begin(), phases.end(), std::int64_t{0});
  result.dimensions.push_back(
      {"phase/phase", phases, "Position modulo the period, 0 at the first position of a block", "token"});
  result.arrays.push_back({"phase/loss", fold.mean, {"phase/phase"}, "Mean of the chosen loss at this phase", "1"});
  std::vector<std::int64_t> counts(fold.count.begin(), fold.count.end());
  result.arrays.push_back({"phase/jump_share",
                           loss::fold_jumps(by_head, period, offset),
                           {"phase/phase"},
                           "Share of the heads' loss jumps at this phase; a block grid puts them all at 0",
                           "1"});
  result.arrays.push_back({"phase/count", counts, {"phase/phase"}, "Positions at this phase", "1"});
}

/// The setting on another's grid, its own keep ratio left as it is.
kv::Compression with_grid_of(kv::Compression setting, const kv::Compression& other) {
  setting.grid_offset = other.grid_offset;
  return setting;
}

void add_prefix_scan(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result) {
  const std::int64_t block_size = setting.block_size;
  loss::PrefixScanSettings scan;
  scan.max_shift = std::min(2 * block_size, trace.num_compressed());
  scan.step = std::max<std::int64_t>(1, scan.max_shift / kPrefixShifts);
  scan.repeats_after = block_size;
  scan.with_output_error = false;
  scan.reduction = run.setting.loss.heads;
  const kv::LayerBudget& budget = run.setting.layer_budget;
  const auto moved_by = [&](std::int64_t layer, std::int64_t shift) {
    kv::Compression moved = trace.setting_of_layer(setting, budget, static_cast<std::size_t>(layer));
    moved.grid_offset = (setting.grid_offset + shift) % block_size;
    return moved;
  };
  const auto compress = [&](std::int64_t layer, std::int64_t shift) {
    const auto index = static_cast<std::size_t>(layer);
    const kv::Compression moved = moved_by(layer, shift);  // its grid may be the scores' own
    return kv::compress_layer(moved, trace.num_compressed(), trace.info().num_kv_heads, trace.info().head_dim,
                              scores_for(with_grid_of(setting, moved), budget, trace)->scores[index],
                              &trace.layers()[index]);
  };
  const auto evict = [&](std::int64_t layer, std::int64_t shift) {
    const kv::Compression moved = moved_by(layer, shift);
    return kv::evicted_runs(
        moved, trace.num_compressed(),
        scores_for(with_grid_of(setting, moved), budget, trace)->scores[static_cast<std::size_t>(layer)]);
  };
  const bool by_runs = !setting.stages.empty() && kv::only_evicts(setting);
  const loss::PrefixScan found = by_runs ? loss::scan_prefix_of_eviction(trace.reference(), evict, scan)
                                         : loss::scan_prefix(trace.reference(), compress, scan);
  result.dimensions.push_back({"prefix/shift", found.shift, "Tokens put in front of the text", "token"});
  result.arrays.push_back(
      {"prefix/sensitivity", found.sensitivity, {"prefix/shift"}, "Mean change of a position's loss", "1"});
  result.arrays.push_back({"prefix/worst_sensitivity",
                           found.worst_sensitivity,
                           {"prefix/shift"},
                           "Largest change of a position's loss",
                           "1"});
  result.numbers["prefix_sensitivity"] = found.sensitivity.empty() ? 0 : *std::ranges::max_element(found.sensitivity);
}

}  // namespace

kv::Compression resolved_compression(const Run& run) {
  kv::Compression setting = run.setting.compression;
  if (run.setting.partition == PartitionKind::random_offset) {
    RandomStream stream(run.seed, "grid_offset");
    setting.grid_offset = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(setting.block_size)));
  }
  return setting;
}

std::shared_ptr<const kv::RecordedScores> scores_for(const kv::Compression& setting, const kv::LayerBudget& budget,
                                                     const TraceInputs& trace) {
  for (const kv::Stage& stage : setting.stages) {
    if (const auto* evict = std::get_if<kv::Evict>(&stage)) return trace.scores(setting, *evict, budget);
  }
  auto none = std::make_shared<kv::RecordedScores>();
  none->num_model_layers = trace.info().num_model_layers;
  none->layers = trace.info().layers;
  none->scores.resize(none->layers.size());
  none->num_positions = trace.num_compressed();
  none->num_kv_heads = trace.info().num_kv_heads;
  return none;
}

void evaluate_loss(const Run& run, const TraceInputs& trace, RunResult& result) {
  const kv::Compression setting = resolved_compression(run);
  const LossSetting& asked = run.setting.loss;
  const std::int64_t num_positions = trace.num_compressed();
  const std::vector<kv::LayerCache> caches = compress_trace(setting, run.setting.layer_budget, trace);
  const loss::PositionLoss loss = loss::measure_loss(trace.reference(), caches, asked.heads);
  const std::vector<std::uint8_t> is_protected = protected_positions(setting, num_positions);
  const std::vector<double> profile = head_of(chosen_metric(asked.metric, loss), num_positions);

  if (run.setting.measure.loss) add_position_arrays(loss, num_positions, result);
  if (run.setting.measure.detail) add_detail(caches, loss, trace, result);

  const loss::SpanStatistics spans =
      loss::span_statistics(profile, head_of(loss.attention, num_positions), is_protected, asked.span);
  result.numbers["loss_mean"] = spans.mean;
  result.numbers["loss_worst"] = spans.worst;
  result.numbers["loss_worst_over_mean"] = spans.worst_over_mean;
  result.numbers["loss_cvar05"] = spans.cvar05;
  result.numbers["longest_lost_run"] = static_cast<double>(spans.longest_lost_run);
  result.numbers["output_error"] = loss.output_error;
  result.numbers["bits_lost"] = std::accumulate(loss.bits_lost.begin(), loss.bits_lost.begin() + num_positions, 0.0) /
                                static_cast<double>(num_positions);
  const kv::HeadCache& any_head = caches.front().heads.front();
  const std::int64_t free_blocks = any_head.num_blocks - any_head.protected_blocks;
  result.numbers["free_blocks"] = static_cast<double>(free_blocks);
  if (free_blocks == 0 && !setting.stages.empty()) {
    result.warnings.push_back(
        fmt::format("block_size {} leaves no free block in the trace's {} positions: everything is protected",
                    setting.block_size, num_positions));
  }

  std::vector<std::vector<double>> by_head;
  for (const std::vector<double>& head : loss.head_mass_loss) by_head.push_back(head_of(head, num_positions));
  loss::PeriodQuestion question;
  question.loss = profile;
  question.head_mass_loss = &by_head;
  question.is_protected = is_protected;
  question.known_block_size = setting.block_size;
  question.seed = run.seed;
  const loss::PeriodVerdict verdict = loss::find_period(question);
  result.numbers["period"] = verdict.period;
  result.numbers["grid_offset"] = verdict.grid_offset;
  result.numbers["cycles"] = verdict.cycles;
  result.numbers["periodicity_index"] = verdict.periodicity_index;
  result.numbers["periodicity_ratio"] = verdict.periodicity_ratio;
  result.numbers["periodicity_p"] = verdict.periodicity_p;
  result.numbers["edge_index"] = verdict.edge_index;
  result.numbers["edge_p"] = verdict.edge_p;
  result.texts["period_kind"] = std::string(loss::to_string(verdict.kind));
  result.texts["period_certainty"] = verdict.certainty;
  add_phase(profile, by_head, is_protected, verdict, setting.block_size, setting.grid_offset, result);

  if (run.setting.measure.position_scan) {
    const loss::PositionScan scan = loss::scan_positions(profile, asked.span);
    result.dimensions.push_back({"scan/position", scan.position, "First token of the probed span", "token"});
    result.arrays.push_back(
        {"scan/success", scan.success, {"scan/position"}, "1 - loss of the span's worst token", "1"});
    result.arrays.push_back(
        {"scan/margin", scan.margin, {"scan/position"}, "success - 1/2; below 0 the span is more lost than kept", "1"});
    result.numbers["position_stability"] = scan.stability;
  }
  if (run.setting.measure.prefix_scan) add_prefix_scan(run, setting, trace, result);
}

}  // namespace kvtide::experiment
