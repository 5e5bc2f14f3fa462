#include "experiment/serving_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "experiment/served_engine.h"
#include "serving/serving_run.h"

namespace kvtide::experiment {
namespace {

constexpr std::size_t kMaxRequestsKept = 200'000;
constexpr double kMaxSeconds = 9e6;  // what picoseconds in 64 bits hold

double expected_length(const serving::LengthDistribution& lengths) {
  return lengths.kind == serving::LengthDistribution::Kind::uniform ? (lengths.low + lengths.high) / 2 : lengths.mean;
}

/// Cuts drawn requests to the model's limit.
class Cutting : public serving::RequestSource {
 public:
  Cutting(serving::RequestSource& source, std::int64_t limit, std::int64_t& cut)
      : source_(source), limit_(limit), cut_(cut) {}
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override { return source_.next_arrival(); }
  [[nodiscard]] serving::Request take() override {
    serving::Request request = source_.take();
    if (request.input_tokens + request.output_tokens <= limit_) return request;
    ++cut_;
    request.output_tokens = std::min(request.output_tokens, limit_ - 1);
    request.input_tokens = limit_ - request.output_tokens;
    return request;
  }
  void on_finish(Picoseconds now) override { source_.on_finish(now); }

 private:
  serving::RequestSource& source_;
  std::int64_t limit_;
  std::int64_t& cut_;
};

void add_latencies(const std::string& name, const std::vector<serving::ServingFigures>& runs,
                   serving::LatencyFigures serving::ServingFigures::*which, RunResult& result) {
  const auto add = [&](const char* statistic, double serving::LatencyFigures::*field) {
    std::vector<double> values;
    for (const serving::ServingFigures& figures : runs) values.push_back((figures.*which).*field);
    const serving::Interval interval = serving::interval_over_seeds(values);
    result.numbers[fmt::format("{}_{}_s", name, statistic)] = interval.mean;
    if (runs.size() > 1 && std::string(statistic) == "p95") {
      result.numbers[fmt::format("{}_p95_half_width_s", name)] = interval.half_width;
    }
  };
  add("mean", &serving::LatencyFigures::mean);
  add("p50", &serving::LatencyFigures::p50);
  add("p95", &serving::LatencyFigures::p95);
  add("p99", &serving::LatencyFigures::p99);
}

void add_requests(const std::vector<serving::RequestTimes>& requests, RunResult& result) {
  const std::size_t count = std::min(requests.size(), kMaxRequestsKept);
  if (requests.size() > count) {
    result.warnings.push_back(
        fmt::format("arrays under serving/ hold the first {} of {} requests", count, requests.size()));
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
  add("input_tokens", "Prompt tokens", "token", [](const Times& t) { return t.input_tokens; });
  add("output_tokens", "Generated tokens", "token", [](const Times& t) { return t.output_tokens; });
}

void add_series(const serving::ServingOutcome& outcome, std::int64_t usable_blocks, RunResult& result) {
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
      [](const One& one) { return one.busy_seconds; });
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

void check_requests(const ServingSetting& setting, const Model& model) {
  if (setting.requests.empty()) return;
  const std::int64_t limit = setting.max_model_len > 0 ? setting.max_model_len : model.max_positions;
  (void)serving::limit_requests(serving::load_requests(setting.requests), limit, setting.long_requests,
                                setting.requests);
}

void evaluate_serving(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result) {
  const ServingSetting& asked = *run.setting.serving;
  const std::int64_t limit = asked.max_model_len > 0 ? asked.max_model_len : model.max_positions;
  serving::LimitedTrace trace;
  // Half way through the output, as for requests of a file.
  double mean_context = expected_length(asked.drawn.input) + expected_length(asked.drawn.output) / 2;
  if (!asked.requests.empty()) {
    trace = serving::limit_requests(serving::load_requests(asked.requests), limit, asked.long_requests, asked.requests);
    double sum = 0;
    if (to_seconds(trace.trace.requests.back().arrival) / asked.rate_scale > kMaxSeconds) {
      throw InputError(
          fmt::format("{}: rate_scale {} stretches the arrivals beyond the {:.0e} s that simulated time holds",
                      asked.requests, asked.rate_scale, kMaxSeconds));
    }
    for (serving::Request& request : trace.trace.requests) {
      request.arrival = from_seconds(to_seconds(request.arrival) / asked.rate_scale);
      sum += static_cast<double>(request.input_tokens) + static_cast<double>(request.output_tokens) / 2;
    }
    mean_context = sum / static_cast<double>(trace.trace.requests.size());
  }
  const auto context = std::clamp<std::int64_t>(std::llround(mean_context), 16, limit);
  const CompressedShare share = compressed_share(run, setting, model, scores, context);
  const serving::MemoryAccount account = memory_account(run, model, gpu.profile(), share.bytes);
  serving::EngineSettings engine{.num_blocks = asked.num_blocks,
                                 .block_size = run.setting.page_size,
                                 .max_num_seqs = asked.max_num_seqs,
                                 .max_num_batched_tokens = asked.max_num_batched_tokens,
                                 .prefix_caching = asked.prefix_caching,
                                 .watermark = asked.watermark,
                                 .growth = cache_growth(setting, share, context)};
  engine.reserve_output = asked.engine == "trtllm";
  engine.prefill_first = asked.engine == "sglang";
  if (engine.num_blocks == 0) engine.num_blocks = account.num_blocks(engine.block_size);
  serving::MachineStepTime step_time(gpu, step_options(run, setting, model, scores, share.bytes));

  std::vector<serving::ServingFigures> figures;
  std::int64_t preemptions = 0, emptied = 0, truncated = trace.truncated, max_running = 0;
  double used_share = 0;
  for (std::int64_t seed = 0; seed < asked.seeds; ++seed) {
    serving::ServingOutcome outcome;
    if (!asked.requests.empty()) {
      outcome = serving::serve(trace.trace, engine, step_time);
    } else {
      const auto drawn = serving::draw_requests(asked.drawn, engine.block_size,
                                                mix64(run.setting.seed + 0x9E37 * static_cast<std::uint64_t>(seed)));
      Cutting source(*drawn, limit, truncated);
      outcome = serving::serve(source, engine, step_time, {.shared_block_tokens = engine.block_size});
    }
    figures.push_back(serving::figures_of(outcome.requests, outcome.makespan, asked.objectives));
    preemptions += outcome.counters.preemptions;
    emptied += outcome.counters.emptied_blocks;
    max_running = std::max(max_running, outcome.max_running);
    used_share = std::max(used_share, outcome.max_used_share);
    if (seed == 0) {
      add_requests(outcome.requests, result);
      add_series(outcome, engine.num_blocks - 1, result);
    }
  }
  const auto mean_of = [&](double serving::ServingFigures::*field) {
    double sum = 0;
    for (const serving::ServingFigures& one : figures) sum += one.*field;
    return sum / static_cast<double>(figures.size());
  };
  const auto runs = static_cast<double>(asked.seeds);
  auto& numbers = result.numbers;
  numbers["serving_blocks"] = static_cast<double>(engine.num_blocks);
  numbers["serving_kv_tokens"] = static_cast<double>((engine.num_blocks - 1) * engine.block_size);
  numbers["serving_keep_ratio"] = engine.growth.keep_ratio;
  numbers["serving_entry_share"] = share.bytes;
  numbers["requests_per_s"] = mean_of(&serving::ServingFigures::requests_per_second);
  numbers["output_tokens_per_s"] = mean_of(&serving::ServingFigures::output_tokens_per_second);
  numbers["goodput_per_s"] = mean_of(&serving::ServingFigures::goodput);
  numbers["cache_hit_share"] = mean_of(&serving::ServingFigures::cache_hit_share);
  numbers["preemptions"] = static_cast<double>(preemptions) / runs;
  numbers["emptied_blocks"] = static_cast<double>(emptied) / runs;
  numbers["most_running"] = static_cast<double>(max_running);
  numbers["most_used_pages_share"] = used_share;
  numbers["requests_truncated"] = static_cast<double>(truncated);
  numbers["requests_dropped"] = static_cast<double>(trace.dropped);
  add_latencies("ttft", figures, &serving::ServingFigures::ttft, result);
  add_latencies("tpot", figures, &serving::ServingFigures::tpot, result);
  add_latencies("latency", figures, &serving::ServingFigures::latency, result);
  add_latencies("queue", figures, &serving::ServingFigures::queueing, result);
}

void add_expected_loss(RunResult& result) {
  const auto profile = std::ranges::find(result.arrays, "loss/mass_loss", &ResultArray::path);
  if (profile == result.arrays.end()) return;
  double sums[3] = {}, weights[3] = {};
  std::visit(
      [&](const auto& values) {
        const auto count = static_cast<double>(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double late = (static_cast<double>(i) + 0.5) / count;
          const double weight[3] = {1, 1 - late, late};
          const auto loss = static_cast<double>(values[i]);
          if (std::isnan(loss)) continue;
          for (int place = 0; place < 3; ++place) {
            sums[place] += weight[place] * loss;
            weights[place] += weight[place];
          }
        }
      },
      profile->values);
  const char* const names[3] = {"expected_loss_uniform", "expected_loss_start", "expected_loss_end"};
  for (int place = 0; place < 3; ++place) {
    if (weights[place] > 0) result.numbers[names[place]] = sums[place] / weights[place];
  }
}

}  // namespace kvtide::experiment
