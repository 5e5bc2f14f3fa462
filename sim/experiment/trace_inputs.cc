#include "experiment/trace_inputs.h"

#include <fmt/format.h>

#include "base/error.h"
#include "experiment/evict_text.h"
#include "experiment/given_scores.h"
#include "experiment/trace_source.h"
#include "kv/compression/importance.h"
#include "kv/compression/lazy_layer.h"

namespace kvtide::experiment {
namespace {

Bytes tensor_bytes(const attention::TraceInfo& info, std::int64_t num_queries) {
  const auto rows =
      static_cast<Bytes>(3 * info.num_kv_heads * info.num_tokens + 2 * info.num_query_heads * num_queries);
  const Bytes of_layer = checked_product(rows, static_cast<Bytes>(info.head_dim) * 4, "trace tensors");
  return checked_product(of_layer, static_cast<Bytes>(info.num_layers()), "trace tensors");
}

loss::MeasureQueries sampled(loss::MeasureQueries queries, const LossSetting& loss, std::uint64_t seed) {
  queries.sample = loss.sample_queries;
  queries.seed = seed;
  return queries;
}

/// A sampled query has one error over all layers, so every layer draws from the same queries.
/// @throws InputError naming a layer that recorded others
void check_candidates(const LossSetting& loss, const attention::Trace& trace, const loss::MeasureQueries& range) {
  if (loss.sample_queries == 0) return;
  const auto candidates = [&](std::int64_t layer) {
    std::vector<std::int64_t> positions = trace.query_positions(layer);
    std::erase_if(positions, [&](std::int64_t position) { return position < range.first || position > range.last; });
    return positions;
  };
  const std::vector<std::int64_t> of_first = candidates(0);
  for (std::int64_t layer = 1; layer < trace.num_layers(); ++layer) {
    if (candidates(layer) == of_first) continue;
    const std::vector<std::int64_t>& names = trace.info().layers;
    throw InputError(fmt::format(
        "loss.sample_queries: layers {} and {} of {} hold different queries among {}..{}, and a sample is "
        "drawn of the same ones in every layer",
        names.front(), names[static_cast<std::size_t>(layer)], trace.info().origin, range.first, range.last));
  }
}

}  // namespace

loss::MeasureQueries measured_queries(const LossSetting& loss, const attention::Trace& trace) {
  const std::vector<std::int64_t> recorded = trace.query_positions(0);
  if (recorded.empty()) throw InputError(fmt::format("{}: the trace holds no queries", trace.info().origin));
  loss::MeasureQueries range;
  switch (loss.measure_queries) {
    case MeasureQueries::question:
      range = {trace.info().question_and_answer().first, trace.info().question_and_answer().last};
      break;
    case MeasureQueries::answer:
      range = {trace.info().answer.first, trace.info().answer.last};
      break;
    case MeasureQueries::all:
      range = {recorded.front(), recorded.back()};
      break;
    case MeasureQueries::range:
      range = {loss.first_query, loss.last_query};
      break;
  }
  if (range.first > range.last || range.last < recorded.front() || range.first > recorded.back()) {
    throw InputError(fmt::format("loss.measure_queries: {}..{} lies outside the queries that {} holds, {}..{}",
                                 range.first, range.last, trace.info().origin, recorded.front(), recorded.back()));
  }
  return range;
}

TraceInputs::TraceInputs(const TraceSource& source, const LossSetting& loss, std::uint64_t seed)
    : loss_(loss),
      trace_(open_trace(source, seed)),
      num_compressed_(loss.queries == QueryMode::agnostic ? trace_.info().num_context : trace_.info().answer.first),
      reference_(sampled(measured_queries(loss, trace_), loss, seed)) {
  check_candidates(loss, trace_, reference_.measure());
  const Bytes bytes = tensor_bytes(trace_.info(), static_cast<std::int64_t>(trace_.query_positions(0).size()));
  if (bytes > kMaxTraceBytes) {
    throw InputError(
        fmt::format("{}: its tensors need {} in memory, more than the {} allowed; record fewer layers or tokens",
                    trace_.info().origin, format_bytes(static_cast<double>(bytes)),
                    format_bytes(static_cast<double>(kMaxTraceBytes))));
  }
  for (std::int64_t index = 0; index < trace_.num_layers(); ++index) {
    layers_.push_back(trace_.load_layer(index));
    reference_.add_layer(layers_.back());
  }
}

std::shared_ptr<const kv::RecordedScores> TraceInputs::scores(const kv::Compression& setting, const kv::Evict& stage,
                                                              const kv::LayerBudget& budget) const {
  const std::lock_guard lock(mutex_);
  std::string key = kv::importance_key(setting, stage);
  if (budget.kind != kv::LayerBudget::Kind::uniform)
    key += fmt::format("|{} {}", layer_budget_text(budget), stage.keep);
  std::shared_ptr<const kv::RecordedScores>& known = scores_[key];
  if (known == nullptr) {
    auto made = std::make_shared<kv::RecordedScores>();
    made->num_model_layers = trace_.info().num_model_layers;
    made->layers = trace_.info().layers;
    made->num_positions = num_compressed_;
    made->num_kv_heads = trace_.info().num_kv_heads;
    made->budget = fitted(budget);
    const std::vector<kv::LayerScores> given = stage.scorer == "file"
                                                   ? read_given_scores(stage, trace_.info(), num_compressed_)
                                                   : std::vector<kv::LayerScores>();
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      kv::RowMatrix output_projection;
      if (kv::needs_output_projection(stage)) {
        output_projection = trace_.output_projection(static_cast<std::int64_t>(layer));
      }
      made->is_lazy.push_back(is_lazy(budget, layer));
      kv::Evict of_layer = stage;
      kv::Compression alone;
      alone.stages = {stage};
      of_layer.keep = std::get<kv::Evict>(setting_of_layer(alone, budget, layer).stages.front()).keep;
      made->scores.push_back(kv::importance(setting, of_layer, layers_[layer],
                                            {.num_positions = num_compressed_,
                                             .score_window = loss_.score_window,
                                             .output_projection = &output_projection,
                                             .given = given.empty() ? nullptr : &given[layer],
                                             .seed = layer + 1}));
    }
    known = std::move(made);
  }
  return known;
}

kv::LayerBudget TraceInputs::fitted(kv::LayerBudget budget) const {
  if (budget.heads_misfit.empty()) return budget;
  const attention::TraceInfo& trace = trace_.info();
  const auto table = kv::of_kv_heads(budget.heads, trace.num_model_layers, trace.num_query_heads, trace.num_kv_heads);
  if (!table) {
    throw InputError(fmt::format("{}, that of {} {} x {} or {} x {}", budget.heads_misfit, trace.origin,
                                 trace.num_model_layers, trace.num_query_heads, trace.num_model_layers,
                                 trace.num_kv_heads));
  }
  budget.heads = *table;
  budget.heads_misfit.clear();
  return budget;
}

bool TraceInputs::is_lazy(const kv::LayerBudget& budget, std::size_t layer) const {
  return budget.kind == kv::LayerBudget::Kind::lazy &&
         kv::lazy_share(layers_[layer], num_compressed_, {}) > budget.lazy_threshold;
}

kv::Compression TraceInputs::setting_of_layer(const kv::Compression& setting, const kv::LayerBudget& budget,
                                              std::size_t layer) const {
  if (budget.kind == kv::LayerBudget::Kind::uniform) return setting;
  const attention::TraceInfo& trace = trace_.info();
  const kv::LayerBudget of_trace = fitted(budget);
  kv::Compression of_layer = setting;
  for (kv::Stage& stage : of_layer.stages) {
    auto* evict = std::get_if<kv::Evict>(&stage);
    if (evict == nullptr) continue;
    evict->head_keep = kv::keep_by_head(of_trace, evict->keep, trace.layers[layer], trace.num_model_layers,
                                        trace.num_kv_heads, num_compressed_);
    evict->keep = kv::layer_keep(of_trace, evict->keep, trace.layers[layer], trace.num_model_layers, num_compressed_,
                                 is_lazy(budget, layer));
  }
  return of_layer;
}

}  // namespace kvtide::experiment
