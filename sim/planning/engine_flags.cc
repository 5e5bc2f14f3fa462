#include "planning/engine_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace kvtide::planning {
namespace {

struct CacheType {
  const char* format;  ///< a codec of ours
  const char* vllm;
  const char* sglang;
  const char* trtllm;
};
constexpr std::array kCacheTypes{
    CacheType{"fp8_e4m3", "fp8", "fp8_e4m3", "fp8"},
    CacheType{"fp8_e5m2", "fp8_e5m2", "fp8_e5m2", ""},
    CacheType{"fp8_per_token_head", "fp8_per_token_head", "", ""},
    CacheType{"int8_per_token_head", "int8_per_token_head", "", ""},
    CacheType{"int4_per_token_head", "int4_per_token_head", "", ""},
    CacheType{"nvfp4", "", "fp4_e2m1", "nvfp4"},
};

/// For a comment of a script: a line break in a name must not become a command.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return text;
}

/// One word of a POSIX shell, quoted where it has anything but letters, digits and -_./:
std::string shell_word(const std::string& text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:").find(c) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Of given blocks, of which one is the null block.
std::int64_t usable_tokens(const experiment::ServingSetting& engine, std::int64_t page_size) {
  return (engine.num_blocks - 1) * page_size;
}

/// What was judged that the stack has no flag for, as comments.
std::string left_out(const std::string& stack, const experiment::ServingSetting& engine) {
  std::string keys;
  const auto add = [&](bool is_asked, const std::string& key) {
    if (is_asked) keys += (keys.empty() ? "" : ", ") + key;
  };
  add(engine.watermark > 0, fmt::format("watermark {}", engine.watermark));
  add(engine.swap_space > 0, fmt::format("swap_space {:.0f} B", engine.swap_space));
  add(engine.scheduling == serving::SchedulingPolicy::priority && stack == "trtllm", "scheduling_policy priority");
  add(engine.routing == serving::Routing::least_loaded, "routing least_loaded (the router's in front)");
  std::string text;
  if (engine.engine != stack) {
    text += fmt::format("# Judged as {} shares memory and schedules, not as {} does.\n", engine.engine, stack);
  }
  if (!keys.empty()) text += fmt::format("# Judged with what {} has no flag for: {}.\n", stack, keys);
  return text;
}

std::string vllm_command(const Plan& plan, const Candidate& best, const experiment::ServingSetting& engine,
                         const std::string& type) {
  std::string text =
      fmt::format("vllm serve {} \\\n  --tensor-parallel-size {}", shell_word(plan.model), best.tensor_parallel);
  // Another engine's share is of other memory, and SGLang's may be its own default.
  if (engine.engine == "vllm") text += fmt::format(" --gpu-memory-utilization {}", engine.memory_share);
  text += fmt::format(" \\\n  --max-num-seqs {} --max-num-batched-tokens {}", best.max_num_seqs,
                      engine.max_num_batched_tokens);
  if (engine.max_model_len > 0) text += fmt::format(" --max-model-len {}", engine.max_model_len);
  if (engine.num_blocks > 0) text += fmt::format(" --num-gpu-blocks-override {}", engine.num_blocks);
  if (engine.scheduling == serving::SchedulingPolicy::priority) text += " --scheduling-policy priority";
  if (!engine.prefix_caching) text += " --no-enable-prefix-caching";
  if (!type.empty()) text += fmt::format(" \\\n  --kv-cache-dtype {}", type);
  return text;
}

std::string sglang_command(const Plan& plan, const Candidate& best, const experiment::ServingSetting& engine,
                           std::int64_t page_size, const std::string& type) {
  std::string text = fmt::format(
      "python -m sglang.launch_server --model-path {} \\\n  --tp-size {} --max-running-requests {} "
      "--chunked-prefill-size {} --page-size {}",
      shell_word(plan.model), best.tensor_parallel, best.max_num_seqs, engine.max_num_batched_tokens, page_size);
  if (engine.engine == "sglang" && engine.memory_share > 0) {
    text += fmt::format(" --mem-fraction-static {}", engine.memory_share);
  }
  if (engine.max_model_len > 0) text += fmt::format(" --context-length {}", engine.max_model_len);
  if (engine.num_blocks > 0) text += fmt::format(" --max-total-tokens {}", usable_tokens(engine, page_size));
  if (engine.scheduling == serving::SchedulingPolicy::priority) {
    text += " --enable-priority-scheduling --schedule-low-priority-values-first";
  }
  if (!engine.prefix_caching) text += " --disable-radix-cache";
  if (!type.empty()) text += fmt::format(" \\\n  --kv-cache-dtype {}", type);
  return text;
}

std::string trtllm_command(const Plan& plan, const Candidate& best, const experiment::ServingSetting& engine,
                           std::int64_t page_size, const std::string& type) {
  std::string yaml = "enable_chunked_prefill: true\n";
  if (engine.engine == "trtllm" && !engine.evicts_none) {
    yaml += "scheduler_config:\n  capacity_scheduler_policy: MAX_UTILIZATION\n";
  }
  yaml += fmt::format("kv_cache_config:\n  enable_block_reuse: {}\n  tokens_per_block: {}\n", engine.prefix_caching,
                      page_size);
  if (engine.num_blocks > 0) yaml += fmt::format("  max_tokens: {}\n", usable_tokens(engine, page_size));
  if (engine.engine == "trtllm") yaml += fmt::format("  free_gpu_memory_fraction: {}\n", engine.memory_share);
  if (!type.empty()) yaml += fmt::format("  dtype: {}\n", type);
  std::string text = fmt::format(
      "cat > extra.yaml <<'END'\n{}END\ntrtllm-serve {} \\\n  --tp_size {} --max_batch_size {} "
      "--max_num_tokens {}",
      yaml, shell_word(plan.model), best.tensor_parallel, best.max_num_seqs, engine.max_num_batched_tokens);
  if (engine.max_model_len > 0) text += fmt::format(" --max_seq_len {}", engine.max_model_len);
  return text + " --extra_llm_api_options extra.yaml";
}

/// What a block grid asks of the text in front; tokens of a quantized cache wait for nobody.
std::string padding_text(const kv::Compression& setting) {
  if (setting.stages.empty() || setting.block_size <= 1)
    return "# Prefix padding: not needed, no block grid is compressed.\n";
  return fmt::format(
      "# Prefix padding: end system prompt and few-shot examples at a multiple of {0} tokens (a prefix of {1} tokens "
      "gets "
      "{2} more), so that\n# every request has the same block borders.\n",
      setting.block_size, 2 * setting.block_size + setting.block_size / 3, setting.block_size - setting.block_size / 3);
}

}  // namespace

std::string cache_type(const std::string& stack, const kv::Compression& setting) {
  if (setting.stages.size() != 1) return "";
  const auto* quantize = std::get_if<kv::Quantize>(&setting.stages.front());
  if (quantize == nullptr || quantize->k_format != quantize->v_format || quantize->residual > 0) return "";
  const auto found = std::ranges::find(kCacheTypes, quantize->k_format,
                                       [](const CacheType& type) { return std::string(type.format); });
  if (found == kCacheTypes.end()) return "";
  return stack == "vllm" ? found->vllm : stack == "sglang" ? found->sglang : found->trtllm;
}

std::vector<Probe> probe_set(const std::vector<double>& profile, std::int64_t block_size, std::int64_t spacing,
                             std::size_t count) {
  std::vector<std::int64_t> order;  // of the places that were measured: NaN has no rank
  for (std::size_t p = 0; p < profile.size(); ++p) {
    if (!std::isnan(profile[p])) order.push_back(static_cast<std::int64_t>(p));
  }
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int64_t p) { return profile[static_cast<std::size_t>(p)]; });
  std::vector<Probe> probes;
  const auto take = [&](std::int64_t position) {
    const bool is_near =
        std::ranges::any_of(probes, [&](const Probe& one) { return std::abs(one.position - position) < spacing; });
    if (is_near) return;
    probes.push_back({position, position % block_size, profile[static_cast<std::size_t>(position)]});
  };
  for (const std::int64_t position : order) {
    if (probes.size() * 2 >= count) break;
    take(position);
  }
  std::ranges::stable_sort(order, {}, [&](std::int64_t p) { return profile[static_cast<std::size_t>(p)]; });
  for (const std::int64_t position : order) {
    if (probes.size() >= count) break;
    take(position);
  }
  return probes;
}

std::string emitted_setting(const std::string& stack, const Plan& plan, const PlanOutcome& outcome) {
  if (outcome.best < 0) throw InputError(fmt::format("{}: no candidate is possible, nothing to emit", plan.path));
  const Candidate& best = outcome.candidates[static_cast<std::size_t>(outcome.best)];
  const Policy& policy = outcome.policies[best.policy];
  const experiment::ServingSetting& engine = *policy.run.setting.serving;
  const std::string type = cache_type(stack, policy.setting);
  std::string text =
      fmt::format("#!/bin/sh\n# {}: {} replica{} on {} x {}, cache {}.\n", one_line(plan.name), best.replicas,
                  best.replicas == 1 ? "" : "s", best.num_gpus, one_line(best.gpu), one_line(policy.label));
  if (!policy.loses_nothing() && type.empty()) {
    text += fmt::format("# {} has no flag for this treatment of the cache; it needs a method of its own: {}\n", stack,
                        one_line(experiment::compression_text(policy.run.setting)));
  }
  if (plan.weights != "published") {
    text += fmt::format("# Judged with weights in {}: serve a checkpoint of the model in that format.\n", plan.weights);
  }
  text += left_out(stack, engine);
  const std::int64_t page_size = policy.run.setting.page_size;
  text += (stack == "vllm"     ? vllm_command(plan, best, engine, type)
           : stack == "sglang" ? sglang_command(plan, best, engine, page_size, type)
                               : trtllm_command(plan, best, engine, page_size, type)) +
          "\n\n" + padding_text(policy.setting);
  if (policy.loses_nothing()) return text + "# Probe set: none, the cache loses nothing.\n";
  text += fmt::format(
      "# Probe set: plant a fact at these places of a prompt of {} tokens, with and without compression, and compare "
      "the answers\n"
      "# (kvtide diagnose reads the scan). Attention lost as measured on {}.\n# position,phase,expected_loss\n",
      policy.loss_tokens, one_line(policy.loss_model));
  for (const Probe& probe : probe_set(policy.loss_profile, policy.setting.block_size, 16, 12)) {
    text += fmt::format("# {},{},{:.3f}\n", probe.position, probe.phase, probe.loss);
  }
  return text;
}

}  // namespace kvtide::planning
