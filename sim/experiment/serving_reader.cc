#include "experiment/serving_reader.h"

#include <fmt/format.h>

#include "experiment/workload_reader.h"

namespace kvtide::experiment {
namespace {

using config::Value;

constexpr std::int64_t kMaxTokens = 1 << 24;
constexpr std::int64_t kMaxReplicas = 1024;
constexpr std::int64_t kMinModelLength = 16;                // prompt and answer of one page
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 24;  // 32 bytes each in the simulator's own memory

void read_engine(const Value& value, ServingSetting& setting) {
  setting.engine = value.choice("kind", {"vllm", "sglang", "trtllm"}, "vllm");
  setting.memory_share = value.number(
      "gpu_memory_utilization",
      {.fallback = setting.engine == "sglang" ? 0 : 0.9, .min = setting.engine == "sglang" ? 0 : 0.01, .max = 1});
  setting.num_blocks = value.integer("num_blocks", {.fallback = 0, .min = 0, .max = kMaxBlocks});
  setting.max_model_len = value.integer("max_model_len", {.fallback = 0, .min = 0, .max = kMaxTokens});
  if (setting.max_model_len > 0 && setting.max_model_len < kMinModelLength) {
    value.at("max_model_len")
        .error(fmt::format("expected 0 (the model's own) or {}..{}, got {}", kMinModelLength, kMaxTokens,
                           setting.max_model_len));
  }
  setting.max_num_seqs = value.integer("max_num_seqs", {.fallback = 256, .min = 1, .max = 65536});
  setting.max_num_batched_tokens =
      value.integer("max_num_batched_tokens", {.fallback = 8192, .min = 1, .max = 1 << 20});
  setting.prefix_caching = value.boolean("prefix_caching", true);
  setting.watermark = value.number("watermark", {.fallback = 0, .min = 0, .max = 0.99});
  setting.scheduling = value.choice("scheduling_policy", {"fcfs", "priority"}, "fcfs") == "fcfs"
                           ? serving::SchedulingPolicy::fcfs
                           : serving::SchedulingPolicy::priority;
  if (const Value policy = value.at("capacity_policy"); policy.exists()) {
    setting.evicts_none = policy.as_choice({"guaranteed_no_evict", "max_utilization"}) == "guaranteed_no_evict";
    if (setting.engine != "trtllm") policy.error(fmt::format("is TensorRT-LLM's: kind is {}", setting.engine));
  }
  setting.swap_space =
      value.quantity("swap_space", {.dimension = Dimension::size, .fallback = 0, .min = 0, .max = 1e15});
  setting.replicas = value.integer("data_parallel", {.fallback = 1, .min = 1, .max = kMaxReplicas});
  setting.routing = value.choice("routing", {"round_robin", "least_loaded"}, "round_robin") == "round_robin"
                        ? serving::Routing::round_robin
                        : serving::Routing::least_loaded;
  if (const Value apart = value.at("disaggregation"); apart.exists()) {
    setting.prefill_replicas = apart.integer("prefill_replicas", {.fallback = 1, .min = 1, .max = kMaxReplicas});
    setting.transfer_bandwidth =
        apart.quantity("bandwidth", {.dimension = Dimension::bandwidth, .fallback = 0, .min = 0, .max = 1e15});
    setting.transfer_latency =
        apart.quantity("latency", {.dimension = Dimension::time, .fallback = 0, .min = 0, .max = 100});
  }
}

}  // namespace

serving::Calibration read_calibration(const Value& value) {
  if (!value.exists()) return {};
  const auto seconds = [&](const char* key) {
    return value.quantity(key, {.dimension = Dimension::time, .fallback = 0, .min = 0, .max = 100});
  };
  return {.step_factor = value.number("step_factor", {.fallback = 1, .min = 0.1, .max = 10}),
          .step_gap = seconds("step_gap"),
          .ttft_offset = seconds("ttft_offset")};
}

std::optional<ServingSetting> read_serving(const Value& root,
                                           const std::function<std::string(const std::string&)>& located) {
  const Value workload = root.at("workload"), engine = root.at("engine"), slo = root.at("slo");
  const Value calibration = root.at("calibration");
  if (!workload.exists()) {
    for (const Value* orphan : {&engine, &slo, &calibration}) {
      orphan->accept_all();
      if (orphan->exists()) orphan->error("needs a workload");
    }
    return std::nullopt;
  }
  ServingSetting setting;
  read_workload(workload, setting, located);
  read_engine(engine, setting);
  const auto seconds = [&](const char* key) {
    return slo.quantity(key, {.dimension = Dimension::time, .fallback = 0, .min = 0, .max = 1e6});
  };
  setting.objectives = {.ttft = seconds("ttft"), .tpot = seconds("tpot"), .latency = seconds("latency")};
  setting.calibration = read_calibration(calibration);
  return setting;
}

std::string serving_text(const ServingSetting& setting, const std::string& requests_fingerprint) {
  const auto lengths = [](const serving::LengthDistribution& one) {
    return fmt::format("{} {} {} {} {}", static_cast<int>(one.kind), one.mean, one.cv, one.low, one.high);
  };
  const serving::SyntheticWorkload& drawn = setting.drawn;
  std::string text =
      fmt::format("{} {} {} {} | {} {} {} {} {} {} {} {} {} | {} {} {} {} {} {} {} {} | {} {} {}", requests_fingerprint,
                  setting.rate_scale, setting.seeds, to_string(setting.long_requests), to_string(drawn.arrivals),
                  drawn.rate, drawn.end_rate, drawn.cv, drawn.users, drawn.think_seconds, lengths(drawn.input),
                  lengths(drawn.output), drawn.num_requests, setting.engine, setting.memory_share, setting.num_blocks,
                  setting.max_model_len, setting.max_num_seqs, setting.max_num_batched_tokens, setting.prefix_caching,
                  setting.watermark, setting.objectives.ttft, setting.objectives.tpot, setting.objectives.latency);
  for (const serving::SharedPrefix& prefix : drawn.prefixes) {
    text += fmt::format(" prefix {} {}", prefix.tokens, prefix.share);
  }
  // Written only where they differ from the defaults, so that keys and seeds of earlier results stay.
  text += workload_text(setting);
  if (setting.scheduling != serving::SchedulingPolicy::fcfs) text += " by priority";
  if (!setting.evicts_none) text += " max_utilization";
  if (setting.swap_space > 0) text += fmt::format(" swap {}", setting.swap_space);
  if (setting.replicas > 1) text += fmt::format(" replicas {} {}", setting.replicas, static_cast<int>(setting.routing));
  if (setting.prefill_replicas > 0) {
    text += fmt::format(" prefill {} {} {}", setting.prefill_replicas, setting.transfer_bandwidth,
                        setting.transfer_latency);
    // Prompts are dealt among the prefill engines, too.
    const bool is_dealt = setting.prefill_replicas > 1 && setting.replicas == 1;
    if (is_dealt && setting.routing != serving::Routing::round_robin) text += " least_loaded";
  }
  if (const serving::Calibration& own = setting.calibration; own != serving::Calibration{})
    text += fmt::format(" calibrated {} {} {}", own.step_factor, own.step_gap, own.ttft_offset);
  return text;
}

}  // namespace kvtide::experiment
