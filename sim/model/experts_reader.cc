#include "model/experts_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;

/// The quantity under any of its names; they must agree. @return 0 when none is given
std::int64_t agreed(const Value& text, const std::vector<const char*>& names, std::int64_t max) {
  std::optional<std::int64_t> found;
  for (const char* name : names) {
    const Value value = text.at(name);
    if (!is_given(value)) continue;
    const std::int64_t number = value.as_integer({.min = 0, .max = max});
    if (found && *found != number)
      value.error(fmt::format("expected {} as elsewhere in the file, got {}", *found, number));
    found = number;
  }
  return found.value_or(0);
}

std::int64_t count_ones(const Value& list) {
  std::int64_t ones = 0;
  for (const Value& item : list.items()) ones += item.as_integer({.min = 0, .max = 1});
  return ones;
}

/// Layers with experts, by the first rule that the file states.
std::int64_t num_expert_layers(const Value& text, std::int64_t num_layers) {
  const Value types = text.at("mlp_layer_types");
  const Value frequency = text.at("moe_layer_freq");
  const Value first_dense = text.at("first_k_dense_replace");
  const std::int64_t num_first = is_given(first_dense) ? first_dense.as_integer({.min = 0, .max = num_layers}) : 0;
  const Value step = text.at("decoder_sparse_step");
  const Value dense = text.at("mlp_only_layers");
  const Value interleave = text.at("interleave_moe_layer_step");
  if (is_given(types)) {
    std::int64_t sparse = 0;
    for (const Value& item : types.items()) sparse += item.as_choice({"dense", "sparse"}) == "sparse" ? 1 : 0;
    return std::min(sparse, num_layers);
  }
  if (frequency.is_list()) return std::min(count_ones(frequency), num_layers);
  std::set<std::int64_t> dense_layers;
  if (is_given(dense)) {
    for (const Value& item : dense.items()) dense_layers.insert(item.as_integer({.min = 0, .max = num_layers - 1}));
  }
  const std::int64_t every = is_given(frequency) ? frequency.as_integer({.min = 1, .max = 10'000}) : 1;
  std::int64_t period = is_given(step) ? step.as_integer({.min = 0, .max = 10'000}) : 1;
  if (is_given(interleave)) period = interleave.as_integer({.min = 0, .max = 10'000});
  std::int64_t count = 0;
  for (std::int64_t i = num_first; i < num_layers; ++i) {
    const bool is_in_step = period > 0 && (i + 1) % period == 0;
    if (is_in_step && i % every == 0 && !dense_layers.contains(i)) ++count;
  }
  return count;
}

/// Width of the experts that every token visits.
std::int64_t shared_width(const Value& text, const Experts& experts) {
  const Value width = text.at("shared_expert_intermediate_size");
  const std::int64_t stated = is_given(width) ? width.as_integer({.min = 0, .max = 1 << 26}) : 0;
  const std::int64_t other = agreed(text, {"share_expert_dim"}, 1 << 26);
  const std::int64_t num_shared = agreed(text, {"n_shared_experts", "num_shared_experts"}, 1024);
  return stated > 0 ? stated : other > 0 ? other : num_shared * experts.intermediate_size;
}

constexpr std::array kClassesWithExperts{"mixtral",    "qwen3_moe",   "gpt_oss",     "glm4_moe",
                                         "minimax_m2", "deepseek_v2", "deepseek_v3", "kimi_k2"};

}  // namespace

void read_experts(const Value& text, const ModelClass& model_class, Model& model) {
  Experts& experts = model.experts;
  experts.num_experts =
      agreed(text, {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, 1 << 20);
  experts.num_active = agreed(
      text, {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_k", "moe_topk"},
      1 << 20);
  const Value width = text.at("moe_intermediate_size");
  experts.intermediate_size = is_given(width) ? width.as_integer({.min = 1, .max = 1 << 26}) : model.intermediate_size;
  experts.shared_intermediate_size = shared_width(text, experts);
  const std::int64_t num_layers = num_expert_layers(text, model.num_layers);
  if (experts.num_experts == 0) {
    experts = {};
    const bool should_have = std::ranges::find(kClassesWithExperts, model_class.type) != kClassesWithExperts.end();
    if (should_have) model.weights.is_known = false;
    return;
  }
  experts.num_layers = num_layers;
  if (experts.num_active > experts.num_experts) {
    text.error(fmt::format("a token visits {} experts of {}", experts.num_active, experts.num_experts));
  }
  if (experts.num_active == 0 || experts.intermediate_size == 0) model.weights.is_known = false;
}

}  // namespace kvtide
