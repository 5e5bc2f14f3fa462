#include "planning/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "experiment/served_engine.h"
#include "planning/objective_watch.h"
#include "serving/captured_batch.h"
#include "serving/serving_run.h"
#include "serving/serving_statistics.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kManyBlocks = std::int64_t{1} << 22;  // of a cache without limit
constexpr std::size_t kAloneRequests = 1000;  // one after another in one replay, whose time ends after 106 days
constexpr std::int64_t kChunkTokens = 1024, kMostPrompts = 4096;
// Mixed steps are priced at rounded lengths: decodes and their context down to 8/9, chunks to 16/17 (machine_step_time.h).
constexpr double kDecodesRounded = 8.0 / 9 * 8 / 9, kChunksRounded = 16.0 / 17 * 16 / 17;

}  // namespace

bool assumes_memory_overhead(const experiment::ServingSetting& setting) {
  return setting.num_blocks == 0 && !(setting.engine == "sglang" && setting.memory_share > 0);
}

Replica::Replica(experiment::Run run, const Policy& policy, const Model& model, gpu::Gpu& gpu, const Longest& longest,
                 const Calibration& calibration, const Assumptions& assumptions)
    : run_(std::move(run)),
      policy_(policy),
      model_(model),
      gpu_(gpu),
      longest_(longest),
      assumptions_(assumptions),
      share_(policy.share),
      growth_(policy.growth),
      calibration_(calibration) {
  if (ranks() > 1) {
    share_ = experiment::compressed_share(run_, policy_.setting, model_, *policy_.scores, policy_.context);
    growth_ = experiment::cache_growth(model_, policy_.setting, share_, policy_.context);
  }
  set_max_num_seqs(run_.setting.serving->max_num_seqs);
}

void Replica::set_max_num_seqs(std::int64_t max_num_seqs) {
  experiment::ServingSetting& asked = *run_.setting.serving;
  asked.max_num_seqs = max_num_seqs;
  account_ = experiment::memory_account(run_, model_, gpu_.profile(), share_.bytes);
  account_.activation_bytes *= assumptions_.memory_overhead;
  account_.other_bytes *= assumptions_.memory_overhead;
  if (asked.engine == "sglang" && assumes_memory_overhead(asked)) {
    account_.utilization = 1 - (1 - account_.utilization) * assumptions_.memory_overhead;
  }
  if (account_.kv_bytes() <= 0) {
    const double needed = account_.budget_bytes() - account_.kv_bytes();
    throw InputError(fmt::format("weights and activations needed {}, available {}, short by {}", format_bytes(needed),
                                 format_bytes(account_.budget_bytes()),
                                 format_bytes(needed - account_.budget_bytes())));
  }
  std::int64_t blocks = asked.num_blocks;
  if (blocks == 0 && asked.engine == "vllm") {  // does not start, whatever a policy would evict
    blocks = account_.num_blocks(longest_.total, growth_, asked.max_num_batched_tokens);
  } else {
    if (blocks == 0) blocks = account_.num_blocks(run_.setting.page_size, growth_);
    check_blocks(blocks);
  }
  if (assumptions_.has_unlimited_cache) blocks = kManyBlocks;
  engine_ = experiment::engine_settings(run_, account_, blocks, growth_);
  const std::int64_t captured = serving::largest_captured_batch(max_num_seqs);
  if (step_time_ && captured == captured_) return;
  captured_ = captured;
  step_costs_.clear();
  auto options =
      experiment::step_options(run_, policy_.setting, model_, *policy_.scores, share_.bytes, policy_.context);
  if (assumptions_.has_free_attention) {
    for (gpu::CachedLayer& layer : options.iteration.cache) {
      layer.entry_bytes = 1;
      layer.chunk_bytes = 0;
      layer.dequantized_elements = layer.reconstruction_macs = 0;
    }
  }
  attention_ = std::make_unique<gpu::IterationModel>(gpu_, options.iteration);
  machine_ = std::make_unique<serving::MachineStepTime>(gpu_, std::move(options));
  step_time_ = std::make_unique<CalibratedStepTime>(*machine_, calibration_);
}

/// What Scheduler::add() refuses, before anything is replayed. The last token's entry is never stored.
void Replica::check_blocks(std::int64_t blocks) const {
  const std::int64_t size = run_.setting.page_size, usable = blocks - 1;
  const std::int64_t needed =
      growth_.most_blocks(longest_.prompt, longest_.total - 1, run_.setting.serving->max_num_batched_tokens, size);
  if (needed <= usable) return;
  throw InputError(fmt::format("one request of {} tokens needs {} blocks of {} tokens, the cache has {}: short by {}",
                               longest_.total, needed, size, usable, needed - usable));
}

void Replica::assume(const Assumptions& assumptions, const Longest& longest) {
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

Experience Replica::serve_alone(const Traffic& traffic, const std::vector<Objective>& objectives) {
  std::span<const serving::Request> left = traffic.trace.requests;
  ObjectiveWatch watch(objectives, traffic.trace.requests, calibration_.ttft_offset);
  const serving::ServeOptions options = watch.options(0);
  while (!left.empty() && !watch.is_broken()) {
    const std::size_t count = std::min(left.size(), kAloneRequests);
    AloneSource source(left.first(count));
    watch.add(serving::serve(source, engine_, *step_time_, options));
    left = left.subspan(count);
  }
  return watch.experience();
}

bool Replica::has_hits(const Traffic& traffic) const {
  return engine_.prefix_caching && traffic.trace.shared_block_tokens > 0;
}

/// Steps of prompts alone, attention taken off: those of decodes are padded and have more rows of logits, so they cost no less.
const std::vector<StepCost>& Replica::step_costs() {
  if (!step_costs_.empty()) return step_costs_;
  for (const std::int64_t tokens : step_sizes(engine_.max_num_batched_tokens)) {
    serving::StepShape shape;
    shape.num_rows = 1;
    // In chunks that a mixed step does not round.
    for (std::int64_t left = tokens; left > 0; left -= kChunkTokens)
      shape.prefills.push_back({std::min(left, kChunkTokens), 0});
    gpu::BatchShape batch;
    for (const serving::PrefillChunk& chunk : shape.prefills) batch.chunks.push_back({chunk.tokens, 0});
    const double attention = to_seconds(attention_->attention(batch)) * calibration_.step_factor;
    step_costs_.push_back({static_cast<double>(tokens), to_seconds(step_time_->duration(shape)) - attention});
  }
  return step_costs_;
}

/// Of a full cache, as long sequences as there are and as many sequences as there may be: what is paid once a kernel weighs least there.
double Replica::seconds_per_entry() {
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t shortest = std::clamp<std::int64_t>(kv_tokens() / engine_.max_num_seqs, 1, longest_.total);
  for (const std::int64_t length : {longest_.total, shortest}) {
    std::int64_t count = engine_.max_num_seqs;  // windows alone do not grow with the length
    if (engine_.growth.has_whole_layers) count = std::clamp<std::int64_t>(kv_tokens() / length, 1, count);
    const gpu::BatchShape alone{.decode_lengths = std::vector(static_cast<std::size_t>(count), length), .chunks = {}};
    gpu::BatchShape mixed = alone;
    mixed.chunks.push_back({1, 0});
    for (const gpu::BatchShape& batch : {alone, mixed}) {
      least = std::min(least, to_seconds(attention_->attention(batch)) / static_cast<double>(count * length));
    }
  }
  return least * kDecodesRounded;
}

/// A step full of such prompts, or the middle chunk of a longer one for each of its chunks.
double Replica::seconds_per_prompt(double tokens) {
  const std::int64_t length = std::max<std::int64_t>(1, std::llround(tokens)), most = engine_.max_num_batched_tokens;
  gpu::BatchShape batch;
  double parts = 1;  // of a prompt
  if (length <= most) {
    const std::int64_t count = std::min(most / length, kMostPrompts);
    batch.chunks.assign(static_cast<std::size_t>(count), {length, 0});
    parts = 1 / static_cast<double>(count);
  } else {
    batch.chunks.push_back({most, (length - most) / 2});
    parts = static_cast<double>(length) / static_cast<double>(most);
  }
  return to_seconds(attention_->attention(batch)) * parts * kChunksRounded;
}

double Replica::rate_bound(const Traffic& traffic) {
  const bool hits = has_hits(traffic);
  const MeanWork work = mean_work(traffic, engine_.growth, hits);
  const double tokens = work.prompt_tokens + work.decodes;
  double steps = work.decodes / static_cast<double>(engine_.max_num_seqs);
  if (!hits) steps = std::max(steps, work.room / static_cast<double>(kv_tokens()));
  // In one call the entries may be read while the prompts' scores are computed.
  const double attention =
      std::max(work.entries * seconds_per_entry(), hits ? 0 : seconds_per_prompt(traffic.mean_input));
  return 1 / (least_seconds(step_costs(), tokens, steps) + attention * calibration_.step_factor);
}

std::int64_t Replica::longest_context() const {
  const std::int64_t asked = run_.setting.serving->max_model_len;
  const auto fits = [&](std::int64_t tokens) {
    return engine_.growth.most_blocks(tokens, engine_.max_num_batched_tokens, engine_.block_size) < engine_.num_blocks;
  };
  std::int64_t fitting = 0, too_long = (asked > 0 ? asked : model_.max_positions) + 1;
  while (too_long - fitting > 1) {
    const std::int64_t middle = fitting + (too_long - fitting) / 2;
    (fits(middle) ? fitting : too_long) = middle;
  }
  return fitting;
}

}  // namespace kvtide::planning
