#include "experiment/served_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
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

}  // namespace

/// Over the seeds.
struct ServedTraffic::Sums {
  std::vector<serving::ServingFigures> figures;  ///< [seed]
  std::vector<serving::LatencyFigures> gaps;     ///< [seed]
  std::int64_t preemptions = 0, swaps = 0, emptied_blocks = 0, truncated = 0, dropped = 0, max_running = 0;
  double max_used_share = 0, longest_gap = 0;
  double front_tokens = 0, padding_tokens = 0;  ///< mean of a request
  double transferred_tokens = 0;                ///< mean of a seed
};

ServedTraffic::ServedTraffic(const Run& run, std::int64_t limit)
    : run_(run), asked_(*run.setting.serving), limit_(limit), front_(asked_.front) {
  front_.multiple = run.setting.compression.block_size;
  if (asked_.requests.empty()) {
    mean_own_context_ = asked_.drawn.input.expected() + asked_.drawn.output.expected() / 2;
    return;
  }
  trace_ =
      serving::limit_requests(serving::load_requests(asked_.requests), limit, asked_.long_requests, asked_.requests);
  if (to_seconds(trace_.trace.requests.back().arrival) / asked_.rate_scale > serving::kMaxSeconds) {
    throw InputError(
        fmt::format("{}: rate_scale {} stretches the arrivals beyond the {:.0e} s that simulated time holds",
                    asked_.requests, asked_.rate_scale, serving::kMaxSeconds));
  }
  double sum = 0;
  for (serving::Request& request : trace_.trace.requests) {
    request.arrival = from_seconds(to_seconds(request.arrival) / asked_.rate_scale);
    sum += static_cast<double>(request.input_tokens) + static_cast<double>(request.output_tokens) / 2;
  }
  mean_own_context_ = sum / static_cast<double>(trace_.trace.requests.size());
}

std::int64_t ServedTraffic::mean_context() const {
  return std::clamp<std::int64_t>(std::llround(mean_own_context_ + front_.mean_tokens()), 16, limit_);
}

void ServedTraffic::serve_seed(std::int64_t seed, const serving::Fleet& fleet, serving::StepTime& step_time, Sums& sums,
                               RunResult& result) const {
  const std::uint64_t draws = draws_of(run_, seed);
  std::unique_ptr<serving::RequestSource> origin;
  std::int64_t id_tokens = fleet.engine.block_size;
  if (!asked_.requests.empty()) {
    origin = std::make_unique<serving::TraceSource>(trace_.trace);
    if (trace_.trace.shared_block_tokens > 0 || !front_.exists()) id_tokens = trace_.trace.shared_block_tokens;
  } else {
    origin = serving::draw_requests(asked_.drawn, fleet.engine.block_size, draws, limit_, asked_.long_requests);
    if (!origin->next_arrival()) throw InputError("workload: no request is left");
  }
  serving::FrontSource behind_front(*origin, front_, std::max<std::int64_t>(1, id_tokens), draws, limit_);
  serving::CutSource source(front_.exists() ? static_cast<serving::RequestSource&>(behind_front) : *origin, limit_);

  const bool is_first_seed = seed == 0;
  serving::ServingSample sample(asked_.objectives);
  std::vector<serving::RequestTimes> first;
  serving::ServeOptions options;
  options.on_request = [&](const serving::RequestTimes& in_engine) {
    const serving::RequestTimes times = asked_.calibration.seen_by_client(in_engine);
    sample.add(times);
    if (is_first_seed && first.size() < kMaxRequestsKept) first.push_back(times);
  };
  options.shared_block_tokens = id_tokens;
  options.most_gaps_kept = is_first_seed ? kMaxGapsKept : 0;
  const serving::ServingOutcome outcome = serving::serve(source, fleet, step_time, options);

  sums.figures.push_back(sample.figures(outcome.makespan));
  sums.gaps.push_back(serving::figures_of(outcome.gaps));
  sums.longest_gap = std::max(sums.longest_gap, outcome.gaps.max());
  sums.preemptions += outcome.counters.preemptions;
  sums.swaps += outcome.counters.swaps;
  sums.emptied_blocks += outcome.counters.emptied_blocks;
  sums.truncated += trace_.truncated + source.num_cut();
  sums.dropped += trace_.dropped + source.num_dropped();
  sums.max_running = std::max(sums.max_running, outcome.max_running);
  sums.max_used_share = std::max(sums.max_used_share, outcome.max_used_share);
  const auto all = static_cast<double>(outcome.num_requests * asked_.seeds);
  sums.front_tokens += static_cast<double>(behind_front.front_tokens()) / all;
  sums.padding_tokens += static_cast<double>(behind_front.padding_tokens()) / all;
  sums.transferred_tokens += static_cast<double>(outcome.transferred_tokens) / static_cast<double>(asked_.seeds);
  if (!is_first_seed) return;
  const std::int64_t engines = fleet.replicas + fleet.prefill_replicas;
  add_requests(first, outcome.num_requests, result);
  add_gaps(outcome, result);
  add_series(outcome, engines, engines * (fleet.engine.num_blocks - 1), result);
}

void ServedTraffic::serve(const serving::Fleet& fleet, serving::StepTime& step_time, RunResult& result) const {
  Sums sums;
  for (std::int64_t seed = 0; seed < asked_.seeds; ++seed) serve_seed(seed, fleet, step_time, sums, result);
  using Figures = serving::ServingFigures;
  const auto interval_of = [&](double Figures::*field) {
    std::vector<double> values;
    for (const Figures& one : sums.figures) values.push_back(one.*field);
    return serving::interval_over_seeds(values);
  };
  const serving::Interval goodput = interval_of(&Figures::goodput);
  const serving::Interval output = interval_of(&Figures::output_tokens_per_second);
  const auto seeds = static_cast<double>(asked_.seeds);
  auto& numbers = result.numbers;
  numbers["requests_per_s"] = interval_of(&Figures::requests_per_second).mean;
  numbers["output_tokens_per_s"] = output.mean;
  numbers["goodput_per_s"] = goodput.mean;
  numbers["cache_hit_share"] = interval_of(&Figures::cache_hit_share).mean;
  if (asked_.seeds > 1) {
    numbers["goodput_half_width_per_s"] = goodput.half_width;
    numbers["output_tokens_half_width_per_s"] = output.half_width;
  }
  if (fleet.engine.host_blocks > 0) numbers["swaps"] = static_cast<double>(sums.swaps) / seeds;
  if (fleet.prefill_replicas > 0) numbers["transferred_tokens"] = sums.transferred_tokens;
  if (front_.exists()) {
    numbers["front_tokens"] = sums.front_tokens;
    numbers["front_padding_tokens"] = sums.padding_tokens;
  }
  numbers["itl_max_s"] = sums.longest_gap;
  numbers["preemptions"] = static_cast<double>(sums.preemptions) / seeds;
  numbers["emptied_blocks"] = static_cast<double>(sums.emptied_blocks) / seeds;
  numbers["most_running"] = static_cast<double>(sums.max_running);
  numbers["most_used_pages_share"] = sums.max_used_share;
  numbers["requests_truncated"] = static_cast<double>(sums.truncated) / seeds;
  numbers["requests_dropped"] = static_cast<double>(sums.dropped) / seeds;
  add_latencies("ttft", sums.figures, &Figures::ttft, result);
  add_latencies("tpot", sums.figures, &Figures::tpot, result);
  add_latencies("latency", sums.figures, &Figures::latency, result);
  add_latencies("queue", sums.figures, &Figures::queueing, result);
  add_latencies("itl", sums.gaps, result);
}

std::uint64_t draws_of(const Run& run, std::int64_t seed) {
  return mix64(run.setting.seed + 0x9E37 * static_cast<std::uint64_t>(seed));
}

}  // namespace kvtide::experiment
