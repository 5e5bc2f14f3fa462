#include "experiment/loss_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "experiment/attention_flow.h"
#include "experiment/merged_trace.h"
#include "experiment/prefix_evaluation.h"
#include "experiment/probe_evaluation.h"
#include "experiment/resolved_compression.h"
#include "kv/compression/first_stage.h"
#include "kv/partition.h"
#include "loss/jump_fold.h"
#include "loss/loss_meter.h"
#include "loss/periodicity.h"
#include "loss/phase_profile.h"
#include "loss/position_scan.h"
#include "loss/sampling_error.h"
#include "loss/span_statistics.h"

namespace kvtide::experiment {
namespace {

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

std::vector<kv::LayerCache> compress_trace(const Setting& run, const kv::Compression& setting,
                                           const TraceInputs& trace) {
  const kv::LayerBudget& budget = run.layer_budget;
  const auto scores = scores_for(setting, budget, trace);
  const std::vector<kv::LayerTensors> merged = merged_trace(run.sharing, trace);
  const std::vector<kv::LayerTensors>& layers = merged.empty() ? trace.layers() : merged;
  std::vector<kv::LayerCache> caches;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    caches.push_back(kv::compress_layer(trace.setting_of_layer(setting, budget, layer), trace.num_compressed(),
                                        trace.info().num_kv_heads, trace.info().head_dim, scores->scores[layer],
                                        &layers[layer]));
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
  result.dimensions.push_back({"layer", trace.info().layers, "Recorded model layer", "1"});
  result.dimensions.push_back({"kv_head", heads, "KV head", "1"});
  const std::int64_t num_positions = trace.num_compressed();
  std::vector<std::int64_t> positions(static_cast<std::size_t>(num_positions));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  result.dimensions.push_back({"position", positions, "Position in the trace", "token"});
  std::vector<std::uint8_t> kept;
  std::vector<double> by_head;
  std::vector<double> attention;
  for (const auto& layer : trace.reference().layers()) {
    for (const loss::HeadReference& head : layer) {
      attention.insert(attention.end(), head.attention.begin(), head.attention.begin() + num_positions);
    }
  }
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
  const std::vector<std::string> dimensions{"layer", "kv_head", "position"};
  result.arrays.push_back({"kept", kept, dimensions, "1 where the position is still stored", "1"});
  result.arrays.push_back(
      {"loss_by_head/mass_loss", by_head, dimensions, "Share of a position's attention that the head loses, M", "1"});
  result.arrays.push_back({"loss_by_head/attention", attention, dimensions,
                           "Attention a position receives from the head's measured queries with the full cache", "1"});
}

/// What a run's loss is told by.
struct LossProfile {
  std::vector<double> chosen;                ///< [position] the metric that was asked for
  std::vector<std::uint8_t> is_protected;    ///< [position]
  std::vector<std::vector<double>> by_head;  ///< [layer * kv_head][position] M
};

void add_phase(const LossProfile& profile, const loss::PeriodVerdict& verdict, LossMetric metric,
               const kv::Compression& setting, RunResult& result) {
  // Folded at what was found; without a period at the block size, where a reader would look for one.
  const bool has_period = std::isfinite(verdict.period);
  const std::int64_t period = has_period ? std::llround(verdict.period) : setting.block_size;
  const std::int64_t offset =
      has_period && std::isfinite(verdict.grid_offset) ? std::llround(verdict.grid_offset) : setting.grid_offset;
  if (period > std::ssize(profile.chosen)) return;
  const loss::PhaseProfile fold = loss::fold_by_phase(profile.chosen, period, offset, period, profile.is_protected);
  std::vector<std::int64_t> phases(fold.mean.size());
  std::iota(phases.begin(), phases.end(), std::int64_t{0});
  result.dimensions.push_back(
      {"phase/phase", phases, "Position modulo the period, 0 at the first position of a block", "token"});
  result.arrays.push_back(
      {"phase/loss", fold.mean, {"phase/phase"}, "Mean of the chosen loss at this phase", units_of(metric)});
  std::vector<std::int64_t> counts(fold.count.begin(), fold.count.end());
  result.arrays.push_back({"phase/jump_share",
                           loss::fold_jumps(profile.by_head, period, offset),
                           {"phase/phase"},
                           "Share of the heads' loss jumps at this phase; a block grid puts them all at 0",
                           "1"});
  result.arrays.push_back({"phase/count", counts, {"phase/phase"}, "Positions at this phase", "1"});
}

void add_position_scan(std::span<const double> profile, std::int64_t span, RunResult& result) {
  const loss::PositionScan scan = loss::scan_positions(profile, span);
  result.dimensions.push_back({"scan/position", scan.position, "First token of the probed span", "token"});
  result.arrays.push_back({"scan/success", scan.success, {"scan/position"}, "1 - loss of the span's worst token", "1"});
  result.arrays.push_back(
      {"scan/margin", scan.margin, {"scan/position"}, "success - 1/2; below 0 the span is more lost than kept", "1"});
  result.numbers["position_stability"] = scan.stability;
}

/// Share of the spans of `span` positions that no block holds whole: (span - 1) / block_size on a plain grid, 0 where
/// windows overlap by span - 1 or more.
double cut_rate(const kv::Compression& setting, std::int64_t num_positions, std::int64_t span) {
  if (span > num_positions) return 0;
  std::int64_t whole = 0;
  std::int64_t next = 0;  // spans that begin before are counted
  for (const kv::Block& block : kv::partition_blocks(setting, num_positions)) {
    const std::int64_t last = block.end - span + 1;
    whole += std::max<std::int64_t>(0, last - std::max(next, block.begin));
    next = std::max(next, last);
  }
  return 1 - static_cast<double>(whole) / static_cast<double>(num_positions - span + 1);
}

void add_anchors(const kv::Compression& setting, const loss::PositionLoss& loss, std::int64_t num_positions,
                 RunResult& result) {
  if (setting.anchors.empty()) return;
  double attention = 0;
  double all = 0;
  for (std::int64_t position = 0; position < num_positions; ++position) {
    const double of_position = loss.attention[static_cast<std::size_t>(position)];
    all += of_position;
    if (setting.anchors.contains(position)) attention += of_position;
  }
  result.numbers["anchor_share"] =
      static_cast<double>(setting.anchors.count_within(0, num_positions)) / static_cast<double>(num_positions);
  result.numbers["anchor_attention"] = all > 0 ? attention / all : 0;
}

/// loss_mean of one request. Attention is that of the full cache, the same for all of them.
double mean_loss(const LossSetting& asked, const loss::PositionLoss& loss, std::int64_t num_positions) {
  return loss::span_statistics(head_of(chosen_metric(asked.metric, loss), num_positions),
                               head_of(loss.attention, num_positions), {}, asked.span)
      .mean;
}

/// Replaces a request's loss by the mean over `requests` of them, the first one included; every request draws its own
/// grid offset.
void average_over_requests(const Run& run, const kv::Compression& setting, const TraceInputs& trace,
                           loss::PositionLoss& loss, RunResult& result) {
  const std::int64_t num_positions = trace.num_compressed();
  const std::int64_t requests =
      setting.partition.kind == kv::PartitionKind::random_offset ? run.setting.loss.requests : 1;
  std::vector<double> means{mean_loss(run.setting.loss, loss, num_positions)};
  RandomStream offsets(run.seed, "request_offsets");
  const auto add = [](std::vector<double>& sum, const std::vector<double>& values) {
    for (std::size_t index = 0; index < sum.size(); ++index) sum[index] += values[index];
  };
  const auto each_profile = [](loss::PositionLoss& of, const auto& visit) {
    for (auto* values :
         {&of.mass_loss, &of.lost_mass, &of.output_loss, &of.output_loss_signed, &of.bits_lost, &of.lost_of_query}) {
      visit(*values);
    }
    for (auto& values : of.head_mass_loss) visit(values);
  };
  double squares = loss.output_error_rms * loss.output_error_rms;
  for (std::int64_t request = 1; request < requests; ++request) {
    kv::Compression drawn = setting;
    drawn.grid_offset = static_cast<std::int64_t>(offsets.below(static_cast<std::uint64_t>(setting.block_size)));
    loss::PositionLoss other =
        loss::measure_loss(trace.reference(), compress_trace(run.setting, drawn, trace), run.setting.loss.heads);
    std::vector<const std::vector<double>*> profiles;
    each_profile(other, [&](std::vector<double>& values) { profiles.push_back(&values); });
    std::size_t next = 0;
    each_profile(loss, [&](std::vector<double>& values) { add(values, *profiles[next++]); });
    loss.output_error += other.output_error;
    squares += other.output_error_rms * other.output_error_rms;
    loss.lost_attention += other.lost_attention;
    means.push_back(mean_loss(run.setting.loss, other, num_positions));
  }
  const double share = 1.0 / static_cast<double>(requests);
  each_profile(loss, [share](std::vector<double>& values) {
    for (double& value : values) value *= share;
  });
  loss.output_error *= share;
  loss.lost_attention *= share;
  loss.output_error_rms = std::sqrt(squares * share);
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) * share;
  double variance = 0;
  for (const double value : means) variance += (value - mean) * (value - mean) * share;
  result.numbers["loss_mean_deviation"] = std::sqrt(variance);
}

void add_spans(const LossSetting& asked, const LossProfile& profile, const loss::PositionLoss& loss,
               const TraceInputs& trace, RunResult& result) {
  const std::int64_t num_positions = trace.num_compressed();
  const loss::SpanStatistics spans =
      loss::span_statistics(profile.chosen, head_of(loss.attention, num_positions), profile.is_protected, asked.span);
  result.texts["loss_metric"] = to_string(asked.metric);
  result.numbers["loss_mean"] = spans.mean;
  result.numbers["loss_worst"] = spans.worst;
  result.numbers["loss_worst_over_mean"] = spans.worst_over_mean;
  result.numbers["loss_cvar05"] = spans.cvar05;
  if (asked.metric != LossMetric::mass_loss) return;
  // A position that lost half of its attention is as good as gone; half of an output error or of its bits says no such
  // thing.
  result.numbers["longest_lost_run"] = static_cast<double>(spans.longest_lost_run);
  result.numbers["split_rate"] = loss::split_rate(profile.chosen, profile.is_protected, asked.span);
  if (asked.heads != HeadReduction::reader) return;
  const loss::HeadReference& head = trace.reference().layers().front().front();
  const bool is_sample = head.num_queries < head.num_candidates;
  result.numbers["loss_mean_error"] =
      is_sample ? loss::sampling_error(loss.lost_of_query, loss::attention_given(trace.reference(), num_positions),
                                       head.num_candidates)
                : 0;
}

void add_free_blocks(const kv::Compression& setting, const kv::HeadCache& any_head, std::int64_t num_positions,
                     RunResult& result) {
  const std::int64_t free_blocks = any_head.num_blocks - any_head.protected_blocks;
  result.numbers["free_blocks"] = static_cast<double>(free_blocks);
  if (free_blocks == 0 && !setting.stages.empty()) {
    result.warnings.push_back(
        fmt::format("block_size {} leaves no free block in the trace's {} positions: everything is protected",
                    setting.block_size, num_positions));
  }
}

/// The period that the loss shows, and the loss folded on it.
void add_period(const Run& run, const kv::Compression& setting, const LossProfile& profile, RunResult& result) {
  loss::PeriodQuestion question;
  question.loss = profile.chosen;
  question.head_mass_loss = &profile.by_head;
  question.is_protected = profile.is_protected;
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
  add_phase(profile, verdict, run.setting.loss.metric, setting, result);
}

void add_scans(const Run& run, const kv::Compression& setting, const LossProfile& profile, const TraceInputs& trace,
               RunResult& result) {
  const LossSetting& asked = run.setting.loss;
  const bool is_merged = run.setting.sharing.merges;
  if (run.setting.measure.position_scan) {
    if (run.setting.probe && is_merged) {
      result.warnings.emplace_back("probe: not measured with share_layers");
    } else if (run.setting.probe) {
      evaluate_probe_scan(run, setting, trace, result);
    } else if (asked.metric == LossMetric::mass_loss) {
      add_position_scan(profile.chosen, asked.span, result);
    }
  }
  // Merging goes position by position: a prefix moves nothing.
  if (run.setting.measure.prefix_scan && !is_merged) evaluate_prefix_scan(run, setting, trace, result);
}

}  // namespace

std::shared_ptr<const kv::RecordedScores> scores_for(const kv::Compression& setting, const kv::LayerBudget& budget,
                                                     const TraceInputs& trace) {
  if (const auto* evict = kv::first_stage<kv::Evict>(setting)) return trace.scores(setting, *evict, budget);
  auto none = std::make_shared<kv::RecordedScores>();
  none->num_model_layers = trace.info().num_model_layers;
  none->layers = trace.info().layers;
  none->scores.resize(none->layers.size());
  none->num_positions = trace.num_compressed();
  none->num_kv_heads = trace.info().num_kv_heads;
  return none;
}

MeasuredLoss measured_loss(const Run& run, const kv::Compression& setting, const TraceInputs& trace) {
  const LossSetting& asked = run.setting.loss;
  const std::int64_t num_positions = trace.num_compressed();
  const loss::PositionLoss loss =
      loss::measure_loss(trace.reference(), compress_trace(run.setting, setting, trace), asked.heads);
  MeasuredLoss measured;
  measured.profile = head_of(chosen_metric(asked.metric, loss), num_positions);
  measured.spans = loss::span_statistics(measured.profile, head_of(loss.attention, num_positions),
                                         protected_positions(setting, num_positions), asked.span);
  return measured;
}

void evaluate_loss(const Run& run, const TraceInputs& trace, RunResult& result) {
  const kv::Compression setting = resolved_compression(run, trace);
  const LossSetting& asked = run.setting.loss;
  const std::int64_t num_positions = trace.num_compressed();
  const std::vector<kv::LayerCache> caches = compress_trace(run.setting, setting, trace);
  loss::PositionLoss loss = loss::measure_loss(trace.reference(), caches, asked.heads);
  if (asked.requests > 1) average_over_requests(run, setting, trace, loss, result);
  LossProfile profile;
  profile.chosen = head_of(chosen_metric(asked.metric, loss), num_positions);
  profile.is_protected = protected_positions(setting, num_positions);
  for (const std::vector<double>& head : loss.head_mass_loss) profile.by_head.push_back(head_of(head, num_positions));

  if (run.setting.measure.loss) {
    add_position_arrays(loss, num_positions, result);
    add_attention_flow(setting, trace, caches, result);
  }
  if (run.setting.measure.detail) add_detail(caches, loss, trace, result);
  add_spans(asked, profile, loss, trace, result);
  add_anchors(setting, loss, num_positions, result);
  result.numbers["cut_rate"] = cut_rate(setting, num_positions, asked.span);
  result.numbers["output_error"] = loss.output_error;
  result.numbers["output_error_rms"] = loss.output_error_rms;
  result.numbers["bits_lost"] = std::accumulate(loss.bits_lost.begin(), loss.bits_lost.begin() + num_positions, 0.0) /
                                static_cast<double>(num_positions);
  add_free_blocks(setting, caches.front().heads.front(), num_positions, result);
  add_period(run, setting, profile, result);
  add_scans(run, setting, profile, trace, result);
}

}  // namespace kvtide::experiment
