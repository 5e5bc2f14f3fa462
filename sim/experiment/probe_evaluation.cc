#include "experiment/probe_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "experiment/loss_evaluation.h"
#include "kv/compression/anchor_tokens.h"
#include "kv/compression/evicted_runs.h"
#include "loss/moved_fact.h"
#include "loss/planted_probe.h"
#include "loss/span_statistics.h"

namespace kvtide::experiment {
namespace {

/// Where sums over blocks may begin: everywhere when single positions are chosen or scored apart.
std::vector<std::int64_t> cells_of(const kv::Compression& setting, std::int64_t num_positions) {
  const bool by_block = setting.partition.storage != kv::OverlapStorage::score_only &&
                        !kv::keeps_anchor_tokens(setting) &&
                        std::ranges::all_of(setting.stages, [](const kv::Stage& stage) {
                          return std::get<kv::Evict>(stage).granularity == kv::Granularity::block;
                        });
  std::vector<std::int64_t> cells;
  if (!by_block) {
    cells.resize(static_cast<std::size_t>(num_positions));
    std::iota(cells.begin(), cells.end(), std::int64_t{0});
    return cells;
  }
  for (const kv::Block& block : kv::partition_blocks(setting, num_positions)) {
    cells.push_back(block.begin);
    if (block.end < num_positions) cells.push_back(block.end);
  }
  std::ranges::sort(cells);
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  return cells;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// [layer][kv_head] attention that the measured queries pay to the asked fact's digits; empty without such a fact.
std::vector<std::vector<double>> reading_of_asked_fact(const TraceInputs& trace) {
  const auto asked = std::ranges::find(trace.probes(), true, &attention::Probe::is_asked);
  std::vector<std::vector<double>> reading;
  if (asked == trace.probes().end()) return reading;
  for (const auto& layer : trace.reference().layers()) {
    auto& of_layer = reading.emplace_back();
    for (const loss::HeadReference& head : layer) {
      double sum = 0;
      for (const std::int64_t digit : asked->digit_positions) sum += head.attention[static_cast<std::size_t>(digit)];
      of_layer.push_back(sum);
    }
  }
  return reading;
}

void move_recorded_fact(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result) {
  const auto asked = std::ranges::find(trace.probes(), true, &attention::Probe::is_asked);
  if (asked == trace.probes().end()) {
    throw InputError(fmt::format("{}: probe: source trace needs a probe that is asked for", trace.info().origin));
  }
  loss::MovedFact fact;
  fact.begin = asked->start;
  fact.length = asked->length;
  for (const std::int64_t digit : asked->digit_positions) fact.needed.push_back(digit - asked->start);
  fact.num_positions = trace.num_compressed();
  fact.scoring = {std::max<std::int64_t>(0, fact.num_positions - run.setting.loss.score_window),
                  fact.num_positions - 1};
  fact.measured = trace.reference().measure();
  fact.cell_begins = cells_of(setting, fact.num_positions);
  fact.step = run.setting.probe->step;
  const loss::MovedFactScan scan = loss::scan_moved_fact(trace.layers(), fact, [&](const kv::LayerScores& scores) {
    return kv::evicted_runs(setting, fact.num_positions, scores);
  });
  result.dimensions.push_back({"scan/position", scan.position, "First token of the moved fact", "token"});
  const auto add = [&](const char* name, const std::vector<double>& values, const char* long_name, const char* units) {
    result.arrays.push_back({fmt::format("scan/{}", name), values, {"scan/position"}, long_name, units});
  };
  add("success", scan.success, "Kept share of the attention on the fact's least kept digit, by its readers", "1");
  add("margin", scan.margin, "success - 1/2; below 0 the fact is more lost than kept", "1");
  add("mass", scan.mass, "Attention on the fact's digits that is kept, mean over heads and queries", "1");
  add("bits", scan.bits, "Bits lost per stored element of the fact's digits", "bit");
  result.numbers["position_stability"] = loss::position_stability(scan.success, 1);
  result.numbers["probe_success"] = mean(scan.success);
}

}  // namespace

void evaluate_probe_scan(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result) {
  if (!kv::only_evicts(setting)) {
    throw InputError(
        "probe: planted probes need stages that only evict; codecs are measured by loss at every position");
  }
  const bool sees_probe = std::ranges::all_of(
      setting.stages, [](const kv::Stage& stage) { return std::get<kv::Evict>(stage).scorer == "attention_sum"; });
  if (run.setting.moves_recorded_fact) {
    if (!sees_probe) throw InputError("probe: source trace moves what attention_sum scores; choose that scorer");
    move_recorded_fact(run, setting, trace, result);
    return;
  }
  const LossSetting& asked = run.setting.loss;
  const std::int64_t end = trace.num_compressed();
  loss::ProbeSpec spec = *run.setting.probe;
  if (spec.spacing == 0) {
    // Facts of one probe spread over three blocks and a half, so that they fall on different phases.
    spec.spacing = std::max(spec.span, setting.block_size * 7 / 2);
    const std::int64_t gaps = std::max<std::int64_t>(1, loss::num_facts(spec.kind) - 1);
    spec.spacing = std::max(spec.span, std::min(spec.spacing, (end - spec.span) / (2 * gaps)));
  }
  loss::ProbeInputs inputs;
  inputs.measured = &trace.reference();
  inputs.num_positions = end;
  inputs.seed = run.seed;
  inputs.cell_begins = cells_of(setting, end);
  inputs.reading = reading_of_asked_fact(trace);
  const bool keeps_all = setting.stages.empty();
  inputs.evict = [&](std::int64_t layer, const kv::LayerScores& scores) {
    if (keeps_all) {
      return std::vector<kv::PositionRuns>(trace.reference().layers()[static_cast<std::size_t>(layer)].size());
    }
    return kv::evicted_runs(trace.setting_of_layer(setting, run.setting.layer_budget, static_cast<std::size_t>(layer)),
                            end, scores);
  };
  loss::AttentionReference scoring({std::max<std::int64_t>(0, end - asked.score_window), end - 1});
  if (keeps_all) {
    inputs.fixed_scores.resize(trace.reference().layers().size());
  } else if (sees_probe) {
    for (const kv::LayerTensors& layer : trace.layers()) scoring.add_layer(layer);
    inputs.scoring = &scoring;
    for (const std::int64_t query : trace.layers().front().front().q_positions) {
      if (query < scoring.measure().first || query > scoring.measure().last) continue;
      inputs.scoring_margin.push_back(query >= trace.info().num_context ? spec.margin : 0.0);
    }
  } else {
    inputs.fixed_scores = scores_for(setting, run.setting.layer_budget, trace)->scores;
  }
  const loss::ProbeScan scan = loss::scan_planted_probe(spec, inputs);
  result.dimensions.push_back({"scan/position", scan.position, "First token of the planted probe", "token"});
  const auto add = [&](const char* name, const std::vector<double>& values, const char* long_name, const char* units) {
    result.arrays.push_back({fmt::format("scan/{}", name), values, {"scan/position"}, long_name, units});
  };
  add("success", scan.success, "1 where the probe's answer is retrieved (multi_needle: share of its facts)", "1");
  add("margin", scan.margin, "Score of the right answer over the best other, of what decides", "1");
  add("mass", scan.mass,
      "Attention on one token of the probe, each asked alone (so not a sum over tokens), mean over tokens, readers and "
      "queries",
      "1");
  add("bits", scan.bits, "Bits lost per stored element of the probe's tokens", "bit");
  add("full_success", scan.full_success, "Success with the full cache; below 1 the probe is too weak", "1");
  add("control_success", scan.control_success, "Tokens answered with the fact removed; chance is 1 / codes", "1");
  auto& numbers = result.numbers;
  numbers["position_stability"] = loss::position_stability(scan.success, 1);
  numbers["probe_success"] = mean(scan.success);
  numbers["probe_full_success"] = mean(scan.full_success);
  numbers["probe_control"] = mean(scan.control_success);
}

}  // namespace kvtide::experiment
