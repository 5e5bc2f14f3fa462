#include "planning/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "experiment/served_engine.h"
#include "planning/objective_watch.h"
#include "serving/captured_batch.h"
#include "serving/serving_run.h"
#include "serving/serving_statistics.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kManyBlocks = std::int64_t{1} << 22;  // of a cache without limit

}  // namespace

Replica::Replica(experiment::Run run, const Policy& policy, const Model& model, gpu::Gpu& gpu, std::int64_t longest,
                 const Calibration& calibration, const Assumptions& assumptions)
    : run_(std::move(run)),
      policy_(policy),
      model_(model),
      gpu_(gpu),
      longest_(longest),
      assumptions_(assumptions),
      calibration_(calibration) {
  set_max_num_seqs(run_.setting.serving->max_num_seqs);
}

void Replica::set_max_num_seqs(std::int64_t max_num_seqs) {
  experiment::ServingSetting& asked = *run_.setting.serving;
  asked.max_num_seqs = max_num_seqs;
  account_ = experiment::memory_account(run_, model_, gpu_.profile(), policy_.share.bytes);
  account_.activation_bytes *= assumptions_.memory_overhead;
  account_.other_bytes *= assumptions_.memory_overhead;
  if (account_.kv_bytes() <= 0) {
    const double needed = account_.budget_bytes() - account_.kv_bytes();
    throw InputError(fmt::format("weights and activations needed {}, available {}, short by {}", format_bytes(needed),
                                 format_bytes(account_.budget_bytes()),
                                 format_bytes(needed - account_.budget_bytes())));
  }
  std::int64_t blocks = asked.num_blocks;
  if (blocks == 0) blocks = account_.num_blocks(longest_);
  if (assumptions_.has_unlimited_cache) blocks = kManyBlocks;
  engine_ = experiment::engine_settings(run_, account_, blocks, policy_.growth);
  const std::int64_t captured = serving::largest_captured_batch(max_num_seqs);
  if (step_time_ && captured == captured_) return;
  captured_ = captured;
  auto options = experiment::step_options(run_, policy_.setting, model_, *policy_.scores, policy_.share.bytes);
  if (assumptions_.has_free_attention) {
    for (gpu::CachedLayer& layer : options.iteration.cache) layer.entry_bytes = 1;
  }
  machine_ = std::make_unique<serving::MachineStepTime>(gpu_, std::move(options));
  step_time_ = std::make_unique<CalibratedStepTime>(*machine_, calibration_);
}

void Replica::assume(const Assumptions& assumptions, std::int64_t longest) {
  KVTIDE_ASSERT(assumptions.has_free_attention == assumptions_.has_free_attention, "reading the cache has been priced");
  assumptions_ = assumptions;
  longest_ = longest;
  set_max_num_seqs(run_.setting.serving->max_num_seqs);
}

Experience Replica::serve(const serving::RequestTrace& requests, const std::vector<Objective>& objectives) {
  serving::TraceSource source(requests);
  ObjectiveWatch watch(objectives, requests.requests, calibration_.ttft_offset);
  watch.add(serving::serve(source, engine_, *step_time_, watch.options(requests.shared_block_tokens)));
  return watch.experience();
}

Experience Replica::serve_all(const Traffic& traffic, double rate, std::int64_t replicas,
                              const std::vector<Objective>& objectives) {
  ObjectiveWatch watch(objectives, traffic.trace.requests, calibration_.ttft_offset);
  const serving::ServeOptions options = watch.options(traffic.trace.shared_block_tokens);
  if (run_.setting.serving->routing == serving::Routing::least_loaded) {
    ShareSource source(traffic, rate, 1, 0);
    const serving::Fleet fleet{.engine = engine_, .replicas = replicas, .routing = serving::Routing::least_loaded};
    watch.add(serving::serve(source, fleet, *step_time_, options));
    return watch.experience();
  }
  const auto num_requests = static_cast<std::int64_t>(traffic.trace.requests.size());
  for (std::int64_t replica = 0; replica < std::min(replicas, num_requests) && !watch.is_broken(); ++replica) {
    ShareSource source(traffic, rate, replicas, replica);
    watch.add(serving::serve(source, engine_, *step_time_, options));
  }
  return watch.experience();
}

double Replica::rate_bound(const Traffic& traffic) {
  const std::int64_t chunk = engine_.max_num_batched_tokens;
  const serving::StepShape prompt{.prefills = {{.tokens = chunk, .kv_before = 0}},
                                  .num_decodes = 0,
                                  .decode_kv_tokens = 0,
                                  .compressed_tokens = 0,
                                  .num_rows = 1};
  const double per_prompt_token = to_seconds(step_time_->duration(prompt)) / static_cast<double>(chunk);
  const std::int64_t held = std::max<std::int64_t>(1, engine_.growth.held(std::llround(traffic.mean_context())));
  const std::int64_t batch = std::clamp<std::int64_t>(kv_tokens() / held, 1, engine_.max_num_seqs);
  const double per_token = to_seconds(step_time_->decode_run(batch, batch * held, 1)) / static_cast<double>(batch);
  const bool has_hits = engine_.prefix_caching && traffic.trace.shared_block_tokens > 0;
  const double seconds =
      std::max(has_hits ? 0 : traffic.mean_input * per_prompt_token, (traffic.mean_output - 1) * per_token);
  return seconds > 0 ? 1 / seconds : 1e9;
}

std::int64_t Replica::longest_context() const {
  const std::int64_t asked = run_.setting.serving->max_model_len;
  return std::min(kv_tokens(), asked > 0 ? asked : model_.max_positions);
}

}  // namespace kvtide::planning
