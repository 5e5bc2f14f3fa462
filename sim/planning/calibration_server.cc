#include "planning/calibration_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/quoted_text.h"
#include "base/random.h"
#include "experiment/served_engine.h"
#include "gpu/gpu.h"
#include "model/model.h"
#include "planning/plan.h"
#include "planning/policy.h"
#include "serving/serving_run.h"
#include "serving/workload.h"

namespace kvtide::planning {
namespace {

struct Machine {
  gpu::Gpu gpu;
  serving::MachineStepTime step_time;
  serving::EngineSettings engine;
};

/// Sends a request when it arrives and fewer than so many are under way, else when one of those is answered.
class InFlightLimit : public serving::RequestSource {
 public:
  /// @param source  outlives this object  @param most  0: no limit
  InFlightLimit(serving::RequestSource& source, std::int64_t most) : source_(source), most_(most) {}

  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override {
    const std::optional<Picoseconds> next = source_.next_arrival();
    if (!next || (most_ > 0 && in_flight_ >= most_)) return std::nullopt;
    return std::max(*next, earliest_);
  }
  [[nodiscard]] serving::Request take() override {
    const Picoseconds now = *next_arrival();
    serving::Request request = source_.take();
    request.arrival = now;
    ++in_flight_;
    return request;
  }
  void on_finish(Picoseconds now) override {
    --in_flight_;
    if (most_ > 0) earliest_ = now;
    source_.on_finish(now);
  }

 private:
  serving::RequestSource& source_;
  std::int64_t most_;
  std::int64_t in_flight_ = 0;
  Picoseconds earliest_{0};
};

experiment::Run run_of(const BenchmarkedServer& server) {
  const std::string yaml = fmt::format(
      "name: calibration\nmodel: {}\nweights: {}\ngpu: {}\ntrace: {{synthetic: {{kind: uniform, tokens: 256}}}}\n"
      "tensor_parallel: {}\n"
      "workload: {{poisson: {{rate: \"1 /s\", input_tokens: 1, output_tokens: 1}}}}\n"
      "engine: {{max_num_seqs: {}, max_num_batched_tokens: {}}}\ncompression: {}\n",
      quoted_text(server.model), server.weights, quoted_text(server.gpu), server.tensor_parallel, server.max_num_seqs,
      server.max_num_batched_tokens, server.compression);
  experiment::Run run = experiment::parse_experiment(yaml, "calibrate", ".").runs.front();
  for (const kv::Stage& stage : run.setting.compression.stages) {
    if (std::holds_alternative<kv::Quantize>(stage)) continue;
    throw InputError(fmt::format(
        "calibrate: what the cache {} holds depends on its content: only element types are taken", server.compression));
  }
  return run;
}

}  // namespace

PredictRun predict_on(const BenchmarkedServer& server) {
  const experiment::Run run = run_of(server);
  const Model model = load_model(server.model);
  auto gpu = std::make_shared<gpu::Gpu>(gpu::load_gpu_profile(server.gpu), run.setting.fidelity);
  const kv::Compression& setting = run.setting.compression;
  const std::int64_t context = run.setting.context_tokens;
  const experiment::CompressedShare share =
      experiment::compressed_share(run, setting, model, kv::RecordedScores{}, context);
  const serving::MemoryAccount account = experiment::memory_account(run, model, gpu->profile(), share.bytes);
  const serving::CacheGrowth growth = experiment::cache_growth(model, setting, share, context);
  serving::EngineSettings engine{.num_blocks = account.num_blocks(run.setting.page_size, growth),
                                 .block_size = run.setting.page_size,
                                 .max_num_seqs = server.max_num_seqs,
                                 .max_num_batched_tokens = server.max_num_batched_tokens,
                                 .growth = growth};
  auto base = std::make_shared<serving::MachineStepTime>(
      *gpu, experiment::step_options(run, setting, model, kv::RecordedScores{}, share.bytes, context));
  return [gpu, base, engine](const MeasuredRun& measured, const Calibration& calibration) {
    CalibratedStepTime step_time(*base, calibration);
    if (measured.decode_sequences > 0) {
      const auto kv_tokens = std::llround(measured.decode_context * static_cast<double>(measured.decode_sequences));
      return PredictedRun{.ttft = std::nan(""),
                          .tpot = to_seconds(step_time.decode_run(measured.decode_sequences, kv_tokens, 1))};
    }
    serving::SyntheticWorkload workload;
    workload.num_requests = measured.requests;
    workload.input.mean = std::round(measured.mean_input);
    workload.output.mean = std::round(measured.mean_output);
    if (measured.rate > 0) {
      workload.rate = measured.rate;
    } else {
      workload.arrivals = serving::ArrivalKind::closed_loop;
      workload.users =
          measured.concurrency > 0 ? std::min(measured.concurrency, workload.num_requests) : workload.num_requests;
    }
    const auto drawn = serving::draw_requests(workload, engine.block_size, 1);
    InFlightLimit source(*drawn, measured.rate > 0 ? measured.concurrency : 0);
    const serving::ServingOutcome outcome =
        serving::serve(source, engine, step_time, {.shared_block_tokens = engine.block_size});
    PredictedRun predicted;
    std::int64_t with_tpot = 0;
    for (const serving::RequestTimes& times : outcome.requests) {
      predicted.ttft += to_seconds(times.ttft());
      predicted.queueing += to_seconds(times.queueing());
      if (times.output_tokens < 2) continue;
      predicted.tpot += times.tpot_seconds();
      ++with_tpot;
    }
    const auto count = static_cast<double>(outcome.requests.size());
    predicted.ttft /= count;
    predicted.queueing /= count;
    predicted.tpot = with_tpot > 0 ? predicted.tpot / static_cast<double>(with_tpot) : std::nan("");
    return predicted;
  };
}

}  // namespace kvtide::planning
