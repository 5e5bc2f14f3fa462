#include "experiment/attention_flow.h"

#include <algorithm>
#include <numeric>

#include "loss/head_comparison.h"
#include "loss/redistribution.h"
#include "loss/snowball.h"

namespace kvtide::experiment {
namespace {

/// A code's digits: what a guess chooses among.
constexpr double kChoices = 10;

void add_redistribution(const kv::Compression& setting, const TraceInputs& trace,
                        const std::vector<kv::LayerCache>& caches, RunResult& result) {
  const loss::Surroundings around{.sinks = setting.sinks,
                                  .window = setting.window,
                                  .num_compressed = trace.num_compressed(),
                                  .reach = std::max<std::int64_t>(1, setting.block_size / 8)};
  std::vector<double> gains;
  double to_sinks = 0;
  double all = 0;
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    const std::vector<double> of_layer = loss::redistribution(trace.reference().layers()[layer], caches[layer], around);
    gains.insert(gains.end(), of_layer.begin(), of_layer.end());
    to_sinks += of_layer[static_cast<std::size_t>(loss::Receiver::sinks)];
    all += std::accumulate(of_layer.begin(), of_layer.end(), 0.0);
  }
  std::vector<std::int64_t> receivers(loss::kNumReceivers);
  std::iota(receivers.begin(), receivers.end(), std::int64_t{0});
  result.dimensions.push_back({"redistribution/layer", trace.info().layers, "Recorded model layer", "1"});
  result.dimensions.push_back({"redistribution/receiver", receivers,
                               "0 sinks, 1 kept beside an evicted run, 2 elsewhere, 3 window, 4 after the context",
                               "1"});
  result.arrays.push_back({"redistribution/gain",
                           gains,
                           {"redistribution/layer", "redistribution/receiver"},
                           "Attention gained from what was lost, mean over heads; sums to the layer's lost attention",
                           "1"});
  if (all > 0) result.numbers["gain_to_sinks"] = to_sinks / all;
}

/// Share of the attention of the query that predicts digit `step` on that digit which is kept, by the heads that read it;
/// negative where no such query was measured.
double kept_share(const TraceInputs& trace, const std::vector<std::vector<loss::HeadComparison>>& comparisons,
                  std::int64_t query, std::int64_t digit) {
  double kept = 0;
  double read = 0;
  for (std::size_t layer = 0; layer < comparisons.size(); ++layer) {
    for (std::size_t head = 0; head < comparisons[layer].size(); ++head) {
      const loss::HeadReference& reference = trace.reference().layers()[layer][head];
      const loss::HeadComparison& comparison = comparisons[layer][head];
      for (std::int64_t row = 0; row < reference.num_rows(); ++row) {
        if (reference.row_positions[static_cast<std::size_t>(row)] != query) continue;
        const double weight = reference.weights(row, digit);
        read += weight;
        double held = comparison.state[static_cast<std::size_t>(digit)] == loss::PositionState::evicted ? 0 : weight;
        for (std::size_t c = 0; c < comparison.changed.size() && held > 0; ++c) {
          const auto& members = comparison.changed[c].members;
          if (std::ranges::find(members, digit) == members.end()) continue;
          held = comparison.entry_weights(row, static_cast<std::int64_t>(c)) / static_cast<double>(members.size());
        }
        const double ratio = comparison.mass_ratio(row);
        kept += ratio > 0 ? std::min(weight, held / ratio) : 0;
      }
    }
  }
  return read > 0 ? kept / read : -1;
}

void add_generation(const TraceInputs& trace, const std::vector<kv::LayerCache>& caches, RunResult& result) {
  const auto asked = std::ranges::find(trace.probes(), true, &attention::Probe::is_asked);
  if (asked == trace.probes().end()) return;
  std::vector<std::vector<loss::HeadComparison>> comparisons;
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    auto& of_layer = comparisons.emplace_back();
    for (std::size_t head = 0; head < caches[layer].heads.size(); ++head) {
      of_layer.push_back(loss::compare_head(trace.reference().layers()[layer][head], caches[layer].heads[head], false));
    }
  }
  std::vector<double> kept;
  std::vector<std::int64_t> steps;
  for (std::size_t step = 0; step < asked->digit_positions.size(); ++step) {
    const std::int64_t query = trace.info().answer.first + static_cast<std::int64_t>(step);
    const double share = kept_share(trace, comparisons, query, asked->digit_positions[step]);
    if (share < 0) return;
    kept.push_back(share);
    steps.push_back(static_cast<std::int64_t>(step));
  }
  // The recorded model answers every probe with the full cache.
  const std::vector<double> full(kept.size(), 1.0);
  const loss::Snowball snowball = loss::estimate_snowball(full, kept, kChoices);
  result.dimensions.push_back({"generation/step", steps, "Answer token", "1"});
  const auto add = [&](const std::string& name, const std::vector<double>& values, const char* long_name) {
    result.arrays.push_back({"generation/" + name, values, {"generation/step"}, long_name, "1"});
  };
  add("kept_share", kept, "Share of the attention on the token's source that is kept, by the heads that read it");
  add("token_probability", snowball.token_probability, "Estimated probability of the right token, earlier ones given");
  add("survival", snowball.survival, "Estimated probability that no token up to this one was wrong");
  result.numbers["answer_log_probability"] = snowball.log_probability;
  result.numbers["answer_right_tokens"] = snowball.expected_right_tokens;
  result.numbers["answer_is_trusted"] = snowball.is_trusted ? 1 : 0;
}

}  // namespace

void add_attention_flow(const kv::Compression& setting, const TraceInputs& trace,
                        const std::vector<kv::LayerCache>& caches, RunResult& result) {
  add_redistribution(setting, trace, caches, result);
  add_generation(trace, caches, result);
}

}  // namespace kvtide::experiment
