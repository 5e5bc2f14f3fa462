#include "experiment/serving_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "config/csv_table.h"
#include "experiment/served_engine.h"
#include "serving/serving_run.h"
#include "serving/simulated_time.h"

namespace kvtide::experiment {
namespace {

constexpr std::size_t kMaxRequestsKept = 200'000;
constexpr std::size_t kMaxGapsKept = 50'000;
constexpr std::int64_t kBinsMerged = 5;  // of the histogram of gaps: 1 % wide

void add_latencies(const std::string& name, const std::vector<serving::LatencyFigures>& runs, RunResult& result) {
  const auto add = [&](const char* statistic, double serving::LatencyFigures::*field) {
    std::vector<double> values;
    for (const serving::LatencyFigures& figures : runs) values.push_back(figures.*field);
    const serving::Interval interval = serving::interval_over_seeds(values);
    result.numbers[fmt::format("{}_{}_s", name, statistic)] = interval.mean;
    if (runs.size() > 1) result.numbers[fmt::format("{}_{}_half_width_s", name, statistic)] = interval.half_width;
  };
  add("mean", &serving::LatencyFigures::mean);
  add("p50", &serving::LatencyFigures::p50);
  add("p95", &serving::LatencyFigures::p95);
  add("p99", &serving::LatencyFigures::p99);
}

void add_latencies(const std::string& name, const std::vector<serving::ServingFigures>& runs,
                   serving::LatencyFigures serving::ServingFigures::*which, RunResult& result) {
  std::vector<serving::LatencyFigures> figures;
  for (const serving::ServingFigures& one : runs) figures.push_back(one.*which);
  add_latencies(name, figures, result);
}

/// @param num_requests  of which `requests` are the first
void add_requests(const std::vector<serving::RequestTimes>& requests, std::int64_t num_requests, RunResult& result) {
  const std::size_t count = requests.size();
  if (num_requests > static_cast<std::int64_t>(count)) {
    result.warnings.push_back(
        fmt::format("arrays under serving/ hold the first {} of {} requests", count, num_requests));
  }
  std::vector<std::int64_t> index(count);
  std::iota(index.begin(), index.end(), std::int64_t{0});
  result.dimensions.push_back({"serving/request", std::move(index), "Request, by arrival", "1"});
  const auto add = [&](const char* name, const char* long_name, const char* units, auto&& value_of) {
    using Number = std::decay_t<decltype(value_of(requests.front()))>;
    std::vector<Number> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(value_of(requests[i]));
    result.arrays.push_back(
        {fmt::format("serving/{}", name), std::move(values), {"serving/request"}, long_name, units});
  };
  using Times = serving::RequestTimes;
  add("arrival_s", "When the request joined the queue", "s", [](const Times& t) { return to_seconds(t.queued); });
  add("ttft_s", "From joining the queue to the first token", "s", [](const Times& t) { return to_seconds(t.ttft()); });
  add("tpot_s", "Mean time between tokens after the first; NaN for one token", "s",
      [](const Times& t) { return t.tpot_seconds(); });
  add("latency_s", "From joining the queue to the last token", "s",
      [](const Times& t) { return to_seconds(t.latency()); });
  add("queue_s", "From joining the queue to the first step", "s",
      [](const Times& t) { return to_seconds(t.queueing()); });
  add("preemptions", "Times the request lost its cache and was computed again", "1",
      [](const Times& t) { return t.preemptions; });
  add("cached_tokens", "Prompt tokens found in the prefix cache", "token",
      [](const Times& t) { return t.cached_tokens; });
  add("itl_max_s", "Longest time between two tokens; 0 for one token", "s",
      [](const Times& t) { return to_seconds(t.longest_gap); });
  add("priority", "Priority, the lower the sooner", "1", [](const Times& t) { return t.priority; });
  add("input_tokens", "Prompt tokens", "token", [](const Times& t) { return t.input_tokens; });
  add("output_tokens", "Generated tokens", "token", [](const Times& t) { return t.output_tokens; });
}

/// Gaps between tokens: one by one of the first requests, and how often each length occurs among all.
void add_gaps(const serving::ServingOutcome& outcome, RunResult& result) {
  const std::vector<serving::LatencyHistogram::Bin> bins = outcome.gaps.bins(kBinsMerged);
  if (bins.empty()) return;
  std::vector<double> seconds;
  std::vector<std::int64_t> counts;
  for (const serving::LatencyHistogram::Bin& bin : bins) {
    seconds.push_back(bin.seconds);
    counts.push_back(bin.count);
  }
  result.dimensions.push_back({"serving/itl_bin_s", std::move(seconds), "Time between two tokens", "s"});
  result.arrays.push_back(
      {"serving/itl_count", std::move(counts), {"serving/itl_bin_s"}, "Tokens that came after about that time", "1"});
  if (outcome.kept_gaps.empty()) return;
  std::vector<std::int64_t> index(outcome.kept_gaps.size()), request, token;
  std::iota(index.begin(), index.end(), std::int64_t{0});
  std::vector<double> gaps;
  for (const serving::TokenGap& gap : outcome.kept_gaps) {
    request.push_back(gap.request);
    token.push_back(gap.token);
    gaps.push_back(gap.seconds);
  }
  result.dimensions.push_back({"serving/gap", std::move(index), "Tokens after the first, by request", "1"});
  const auto add = [&](const char* name, auto values, const char* long_name, const char* units) {
    result.arrays.push_back({fmt::format("serving/{}", name), std::move(values), {"serving/gap"}, long_name, units});
  };
  add("itl_s", std::move(gaps), "Time since the token before", "s");
  add("itl_request", std::move(request), "Request of the token, by arrival", "1");
  add("itl_token", std::move(token), "Tokens of the request before this one", "1");
}

/// @param num_engines, usable_blocks  of all of them
void add_series(const serving::ServingOutcome& outcome, std::int64_t num_engines, std::int64_t usable_blocks,
                RunResult& result) {
  const double width = to_seconds(outcome.series.interval());
  std::vector<double> start;
  for (std::size_t i = 0; i < outcome.series.intervals().size(); ++i) start.push_back(static_cast<double>(i) * width);
  result.dimensions.push_back({"serving/time_s", start, "Start of the interval", "s"});
  const auto add = [&](const char* name, const char* long_name, const char* units, auto&& value_of) {
    std::vector<double> values;
    for (const serving::SeriesInterval& one : outcome.series.intervals()) values.push_back(value_of(one) / width);
    result.arrays.push_back({fmt::format("serving/{}", name), std::move(values), {"serving/time_s"}, long_name, units});
  };
  using One = serving::SeriesInterval;
  const auto blocks = static_cast<double>(usable_blocks);
  add("busy_share", "Share of the interval in which the engine computed", "1",
      [&](const One& one) { return one.busy_seconds / static_cast<double>(num_engines); });
  add("running", "Sequences in the batch, mean", "1", [](const One& one) { return one.running; });
  add("waiting", "Requests in line, mean", "1", [](const One& one) { return one.waiting; });
  add("used_pages_share", "Share of the KV pages that were taken, mean", "1",
      [&](const One& one) { return one.used_blocks / blocks; });
  add("cached_context_tokens", "Context of the running sequences, mean", "token",
      [](const One& one) { return one.used_tokens; });
  add("output_tokens_per_s", "Generated tokens", "token/s", [](const One& one) { return one.output_tokens; });
  add("prompt_tokens_per_s", "Prompt tokens computed, recomputation included", "token/s",
      [](const One& one) { return one.prompt_tokens; });
}

std::int64_t limit_of(const ServingSetting& setting, const Model& model) {
  return setting.max_model_len > 0 ? setting.max_model_len : model.max_positions;
}

/// Of the cache of one engine. vLLM refuses to start where a sequence of max_model_len tokens is longer than the model, or than the cache
/// that it has measured; with given blocks, and in other engines, such a sequence is refused when it comes.
std::int64_t cache_blocks(const Run& run, const Model& model, const serving::MemoryAccount& account,
                          const serving::CacheGrowth& growth, RunResult& result) {
  const ServingSetting& asked = *run.setting.serving;
  const std::int64_t limit = limit_of(asked, model), page_size = run.setting.page_size;
  const bool is_vllm = asked.engine == "vllm";
  if (limit > model.max_positions) {
    const std::string text =
        fmt::format("engine.max_model_len: {} is more than the model's {} positions", limit, model.max_positions);
    if (is_vllm) throw InputError(text + ": vLLM refuses to start");
    result.warnings.push_back(text);
  }
  if (is_vllm && asked.num_blocks == 0) {
    try {
      return account.num_blocks(limit, growth, asked.max_num_batched_tokens);
    } catch (const InputError& error) {
      throw InputError(fmt::format("engine.max_model_len: vLLM refuses to start: {}", error.what()));
    }
  }
  const std::int64_t blocks = asked.num_blocks > 0 ? asked.num_blocks : account.num_blocks(page_size, growth);
  const std::int64_t needed = growth.most_blocks(limit, asked.max_num_batched_tokens, page_size);
  if (asked.max_model_len > 0 && needed > blocks - 1) {
    result.warnings.push_back(fmt::format(
        "engine.max_model_len: a prompt of {} tokens needs {} blocks, the cache has {}", limit, needed, blocks - 1));
  }
  return blocks;
}

/// Names the draws of one of the run's seeds.
std::uint64_t draws_of(const Run& run, std::int64_t seed) {
  return mix64(run.setting.seed + 0x9E37 * static_cast<std::uint64_t>(seed));
}

}  // namespace

void check_requests(const Run& run, const Model& model) {
  const ServingSetting& setting = *run.setting.serving;
  const std::int64_t limit = limit_of(setting, model);
  if (!setting.requests.empty()) {
    (void)serving::limit_requests(serving::load_requests(setting.requests), limit, setting.long_requests,
                                  setting.requests);
  } else if (setting.long_requests == serving::LongRequests::refuse) {
    for (std::int64_t seed = 0; seed < setting.seeds; ++seed)
      serving::check_lengths(setting.drawn, draws_of(run, seed), limit);
  }
}

void evaluate_serving(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result) {
  const ServingSetting& asked = *run.setting.serving;
  const std::int64_t limit = limit_of(asked, model);
  if (asked.requests.empty()) check_requests(run, model);
  serving::LimitedTrace trace;
  // Half way through the output, as for requests of a file.
  double mean_context = asked.drawn.input.expected() + asked.drawn.output.expected() / 2;
  if (!asked.requests.empty()) {
    trace = serving::limit_requests(serving::load_requests(asked.requests), limit, asked.long_requests, asked.requests);
    double sum = 0;
    if (to_seconds(trace.trace.requests.back().arrival) / asked.rate_scale > serving::kMaxSeconds) {
      throw InputError(
          fmt::format("{}: rate_scale {} stretches the arrivals beyond the {:.0e} s that simulated time holds",
                      asked.requests, asked.rate_scale, serving::kMaxSeconds));
    }
    for (serving::Request& request : trace.trace.requests) {
      request.arrival = from_seconds(to_seconds(request.arrival) / asked.rate_scale);
      sum += static_cast<double>(request.input_tokens) + static_cast<double>(request.output_tokens) / 2;
    }
    mean_context = sum / static_cast<double>(trace.trace.requests.size());
  }
  serving::Front front = asked.front;
  front.multiple = setting.block_size;
  const auto context = std::clamp<std::int64_t>(std::llround(mean_context + front.mean_tokens()), 16, limit);
  const CompressedShare share = compressed_share(run, setting, model, scores, context);
  const serving::MemoryAccount account = memory_account(run, model, gpu.profile(), share.bytes);
  const serving::CacheGrowth growth = cache_growth(model, setting, share, context);
  const std::int64_t num_blocks = cache_blocks(run, model, account, growth, result);
  const serving::EngineSettings engine = engine_settings(run, account, num_blocks, growth);
  const serving::Fleet fleet = fleet_of(run, model, gpu.profile(), share.bytes, engine);
  serving::MachineStepTime step_time(gpu, step_options(run, setting, model, scores, share.bytes, context));

  std::vector<serving::ServingFigures> figures;
  std::vector<serving::LatencyFigures> gaps;
  std::int64_t preemptions = 0, swaps = 0, emptied = 0, truncated = 0, dropped = 0, max_running = 0;
  double used_share = 0, longest_gap = 0, front_tokens = 0, padding_tokens = 0, transferred = 0;
  for (std::int64_t seed = 0; seed < asked.seeds; ++seed) {
    const std::uint64_t draws = draws_of(run, seed);
    std::unique_ptr<serving::RequestSource> origin;
    std::int64_t id_tokens = engine.block_size;
    if (!asked.requests.empty()) {
      origin = std::make_unique<serving::TraceSource>(trace.trace);
      if (trace.trace.shared_block_tokens > 0 || !front.exists()) id_tokens = trace.trace.shared_block_tokens;
    } else {
      origin = serving::draw_requests(asked.drawn, engine.block_size, draws, limit, asked.long_requests);
      if (!origin->next_arrival()) throw InputError("workload: no request is left");
    }
    serving::FrontSource behind_front(*origin, front, std::max<std::int64_t>(1, id_tokens), draws, limit);
    serving::CutSource source(front.exists() ? static_cast<serving::RequestSource&>(behind_front) : *origin, limit);
    serving::ServingSample sample(asked.objectives);
    std::vector<serving::RequestTimes> first;
    const serving::ServeOptions options{.on_request =
                                            [&](const serving::RequestTimes& times) {
                                              sample.add(times);
                                              if (seed == 0 && first.size() < kMaxRequestsKept) first.push_back(times);
                                            },
                                        .shared_block_tokens = id_tokens,
                                        .most_gaps_kept = seed == 0 ? kMaxGapsKept : 0};
    const serving::ServingOutcome outcome = serving::serve(source, fleet, step_time, options);
    figures.push_back(sample.figures(outcome.makespan));
    gaps.push_back(serving::figures_of(outcome.gaps));
    longest_gap = std::max(longest_gap, outcome.gaps.max());
    preemptions += outcome.counters.preemptions;
    swaps += outcome.counters.swaps;
    emptied += outcome.counters.emptied_blocks;
    truncated += trace.truncated + source.num_cut();
    dropped += trace.dropped + source.num_dropped();
    max_running = std::max(max_running, outcome.max_running);
    used_share = std::max(used_share, outcome.max_used_share);
    const auto all = static_cast<double>(outcome.num_requests * asked.seeds);
    front_tokens += static_cast<double>(behind_front.front_tokens()) / all;
    padding_tokens += static_cast<double>(behind_front.padding_tokens()) / all;
    transferred += static_cast<double>(outcome.transferred_tokens) / static_cast<double>(asked.seeds);
    if (seed == 0) {
      const std::int64_t engines = fleet.replicas + fleet.prefill_replicas;
      add_requests(first, outcome.num_requests, result);
      add_gaps(outcome, result);
      add_series(outcome, engines, engines * (engine.num_blocks - 1), result);
    }
  }
  const auto mean_of = [&](double serving::ServingFigures::*field) {
    double sum = 0;
    for (const serving::ServingFigures& one : figures) sum += one.*field;
    return sum / static_cast<double>(figures.size());
  };
  const auto runs = static_cast<double>(asked.seeds);
  const auto half_width_of = [&](double serving::ServingFigures::*field) {
    std::vector<double> values;
    for (const serving::ServingFigures& one : figures) values.push_back(one.*field);
    return serving::interval_over_seeds(values).half_width;
  };
  auto& numbers = result.numbers;
  numbers["serving_blocks"] = static_cast<double>(engine.num_blocks);
  numbers["serving_kv_tokens"] = static_cast<double>((engine.num_blocks - 1) * engine.block_size);
  numbers["serving_keep_ratio"] = engine.growth.keep_ratio;
  numbers["serving_entry_share"] = share.bytes;
  numbers["requests_per_s"] = mean_of(&serving::ServingFigures::requests_per_second);
  numbers["output_tokens_per_s"] = mean_of(&serving::ServingFigures::output_tokens_per_second);
  numbers["goodput_per_s"] = mean_of(&serving::ServingFigures::goodput);
  numbers["cache_hit_share"] = mean_of(&serving::ServingFigures::cache_hit_share);
  if (asked.seeds > 1) {
    numbers["goodput_half_width_per_s"] = half_width_of(&serving::ServingFigures::goodput);
    numbers["output_tokens_half_width_per_s"] = half_width_of(&serving::ServingFigures::output_tokens_per_second);
  }
  numbers["serving_engines"] = static_cast<double>(fleet.replicas + fleet.prefill_replicas);
  if (engine.host_blocks > 0) numbers["swaps"] = static_cast<double>(swaps) / runs;
  if (fleet.prefill_replicas > 0) numbers["transferred_tokens"] = transferred;
  if (front.exists()) {
    numbers["front_tokens"] = front_tokens;
    numbers["front_padding_tokens"] = padding_tokens;
  }
  numbers["itl_max_s"] = longest_gap;
  numbers["preemptions"] = static_cast<double>(preemptions) / runs;
  numbers["emptied_blocks"] = static_cast<double>(emptied) / runs;
  numbers["most_running"] = static_cast<double>(max_running);
  numbers["most_used_pages_share"] = used_share;
  numbers["requests_truncated"] = static_cast<double>(truncated) / runs;
  numbers["requests_dropped"] = static_cast<double>(dropped) / runs;
  add_latencies("ttft", figures, &serving::ServingFigures::ttft, result);
  add_latencies("tpot", figures, &serving::ServingFigures::tpot, result);
  add_latencies("latency", figures, &serving::ServingFigures::latency, result);
  add_latencies("queue", figures, &serving::ServingFigures::queueing, result);
  add_latencies("itl", gaps, result);
}

std::vector<double> load_fact_places(const std::string& path, std::size_t num_positions) {
  const config::CsvTable table = config::CsvTable::load(path);
  const bool has_weight = std::ranges::find(table.columns(), "weight") != table.columns().end();
  std::vector<double> weights(num_positions, 0.0);
  double sum = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const double place = table.number(row, "place", 0, 1);
    const double weight = has_weight ? table.number(row, "weight", 0, 1e12) : 1;
    const auto position = static_cast<std::size_t>(place * static_cast<double>(num_positions));
    weights[std::min(position, num_positions - 1)] += weight;
    sum += weight;
  }
  if (!(sum > 0)) throw InputError(fmt::format("{}: no fact has a weight above 0", path));
  return weights;
}

void add_expected_loss(const ServingSetting& asked, RunResult& result) {
  const auto profile = std::ranges::find(result.arrays, "loss/mass_loss", &ResultArray::path);
  if (profile == result.arrays.end()) return;
  std::vector<double> losses;
  std::visit([&](const auto& values) { losses.assign(values.begin(), values.end()); }, profile->values);
  const auto expect = [&](const char* name, const auto& weight_of) {
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (std::isnan(losses[i])) continue;
      sum += weight_of(i) * losses[i];
      weights += weight_of(i);
    }
    if (weights > 0) result.numbers[name] = sum / weights;
  };
  const auto late = [&](std::size_t i) { return (static_cast<double>(i) + 0.5) / static_cast<double>(losses.size()); };
  expect("expected_loss_uniform", [](std::size_t) { return 1.0; });
  expect("expected_loss_start", [&](std::size_t i) { return 1 - late(i); });
  expect("expected_loss_end", late);
  if (asked.facts.empty() || losses.empty()) return;
  const std::vector<double> measured = load_fact_places(asked.facts, losses.size());
  expect("expected_loss_measured", [&](std::size_t i) { return measured[i]; });
}

}  // namespace kvtide::experiment
