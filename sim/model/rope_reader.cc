#include "model/rope_reader.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;

constexpr double kMaxTheta = 1e12;

/// The first of `keys` that is present.
Value first_of(const Value& map, const std::vector<const char*>& keys) {
  for (const char* key : keys) {
    if (is_given(map.at(key))) return map.at(key);
  }
  return map.at(keys.front());
}

std::vector<double> factors(const Value& list) {
  std::vector<double> values;
  for (const Value& item : list.items()) values.push_back(item.as_number({.min = 0, .max = 1e9, .min_is_open = true}));
  return values;
}

/// @param map  rope_scaling or rope_parameters; read whole, unknown keys in it are errors
/// @param beside  the map that may hold original_max_position_embeddings instead (Phi-3)
RopeScaling read_scaling(const Value& map, const Value& beside, const ModelClass& model_class) {
  RopeScaling scaling;
  Value type = map.at("rope_type");
  if (!is_given(type)) type = map.at("type");
  (void)map.at("type");
  for (const char* key : {"mrope_section", "mrope_interleaved", "rope_theta", "partial_rotary_factor"}) {
    map.at(key).accept_all();
  }
  scaling.type = type.as_choice(
      {"default", "linear", "dynamic", "llama3", "yarn", "longrope", "su", "mrope", "proportional"}, "default");
  // Older Phi-3 files call their longrope "su" or "yarn" (Phi3Config, transformers 4.57.1).
  const bool is_older_phi = model_class.type == "phi3" && scaling.type == "yarn" && map.at("short_factor").exists();
  if (scaling.type == "su" || is_older_phi) scaling.type = "longrope";
  if (scaling.type == "default" || scaling.type == "mrope") scaling.type = "none";
  const auto positive = [&](const char* key, std::optional<double> fallback = {}) {
    return map.number(key, {.fallback = fallback, .min = 0, .max = 1e9, .min_is_open = true});
  };
  const Value original = first_of(map, {"original_max_position_embeddings"});
  if (is_given(original)) {
    scaling.original_positions = original.as_integer({.min = 1, .max = 1 << 30});
  } else if (is_given(beside.at("original_max_position_embeddings"))) {
    scaling.original_positions = beside.integer("original_max_position_embeddings", {.min = 1, .max = 1 << 30});
  }
  if (scaling.type == "linear" || scaling.type == "dynamic") scaling.factor = positive("factor");
  if (scaling.type == "llama3") {
    scaling.factor = positive("factor");
    scaling.low_freq_factor = positive("low_freq_factor");
    scaling.high_freq_factor = positive("high_freq_factor");
    if (scaling.original_positions == 0)
      map.at("original_max_position_embeddings").error("missing; llama3 scaling needs it");
  }
  if (scaling.type == "yarn") {
    scaling.factor = positive("factor");
    // Defaults: _compute_yarn_parameters, transformers 4.57.1.
    scaling.beta_fast = positive("beta_fast", 32);
    scaling.beta_slow = positive("beta_slow", 1);
    scaling.truncates = map.boolean("truncate", true);
    scaling.mscale = map.number("mscale", {.fallback = 0, .min = 0, .max = 1e3});
    scaling.mscale_all_dim = map.number("mscale_all_dim", {.fallback = 0, .min = 0, .max = 1e3});
  }
  if (scaling.type == "longrope") {
    scaling.short_factor = factors(map.at("short_factor"));
    scaling.long_factor = factors(map.at("long_factor"));
    if (is_given(map.at("factor"))) scaling.factor = positive("factor");
    for (const char* key : {"short_mscale", "long_mscale"}) map.at(key).accept_all();
  }
  if (is_given(map.at("attention_factor"))) scaling.attention_factor = positive("attention_factor");
  if (scaling.type == "none" && is_given(map.at("factor"))) {
    if (positive("factor") != 1) map.at("factor").error("is given without a type of scaling");
  }
  return scaling;
}

/// gpt_oss without rope_scaling: GptOssConfig, transformers 4.57.1.
RopeScaling class_scaling(const ModelClass& model_class) {
  RopeScaling scaling;
  if (model_class.type != "gpt_oss") return scaling;
  scaling.type = "yarn";
  scaling.factor = 32;
  scaling.beta_fast = 32;
  scaling.beta_slow = 1;
  scaling.original_positions = 4096;
  scaling.truncates = false;
  return scaling;
}

/// Channels of a head that rotate: a count, a share, or all. Shares are rounded down as transformers does.
std::int64_t read_rotary_dim(const Value& map, const Value& text, std::int64_t head_dim) {
  Value share = map.at("partial_rotary_factor");
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rotary_percentage"}) {
    if (!is_given(share)) share = text.at(key);
    (void)text.at(key);
  }
  const Value count = text.at("rotary_dim");
  if (is_given(count)) return count.as_integer({.min = 1, .max = head_dim});
  if (!is_given(share)) return head_dim;
  const double factor = share.as_number({.min = 0, .max = 1});
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * factor);
}

double class_theta(const ModelClass& model_class) {
  return model_class.theta == kUnstated ? 0 : model_class.theta;
}

/// One layer type's rotation. @param map  its rope_parameters; @param theta  what holds when the map has none
Rope read_one(const Value& map, const Value& text, const ModelClass& model_class, std::int64_t head_dim, double theta) {
  Rope rope;
  const Value own = map.at("rope_theta");
  rope.theta = is_given(own) ? own.as_number({.min = 1, .max = kMaxTheta}) : theta;
  rope.rotary_dim = read_rotary_dim(map, text, head_dim);
  rope.scaling = is_given(map) ? read_scaling(map, text, model_class) : class_scaling(model_class);
  if (rope.theta == 0 && model_class.theta == kUnstated) rope.scaling.type = "unstated";
  if (rope.theta == 0 && model_class.theta == 0) rope.rotary_dim = 0;
  for (const auto& list : {rope.scaling.short_factor, rope.scaling.long_factor}) {
    if (rope.scaling.type == "longrope" && static_cast<std::int64_t>(list.size()) != rope.rotary_dim / 2) {
      map.error(fmt::format("expected one short and one long factor per rotated pair ({}), got {}", rope.rotary_dim / 2,
                            list.size()));
    }
  }
  return rope;
}

}  // namespace

RopePair read_rope(const Value& text, const ModelClass& model_class, std::int64_t head_dim) {
  const Value parameters = text.at("rope_parameters");
  const Value older = text.at("rope_scaling");
  const Value flat = is_given(parameters) ? parameters : older;
  if (is_given(flat) && !flat.is_map()) {
    flat.error("expected a mapping or null");
    return {};
  }
  const Value theta_value = first_of(text, {"rope_theta", "rotary_emb_base"});
  const double theta =
      is_given(theta_value) ? theta_value.as_number({.min = 1, .max = kMaxTheta}) : class_theta(model_class);
  const Value local = first_of(text, {"rope_local_base_freq", "swa_rope_theta"});

  RopePair pair;
  const Value by_type = flat.at("full_attention");
  if (is_given(by_type)) {
    pair.full = read_one(by_type, text, model_class, head_dim, theta);
    pair.sliding = read_one(flat.at("sliding_attention"), text, model_class, head_dim, theta);
    return pair;
  }
  pair.full = read_one(flat, text, model_class, head_dim, theta);
  pair.sliding = pair.full;
  // Gemma 3: sliding layers have a base of their own and no scaling (Gemma3TextConfig, transformers 4.57.1).
  const bool is_gemma = model_class.type == "gemma3_text" || model_class.type == "gemma3n_text";
  if (is_given(local) || is_gemma) {
    pair.sliding.theta = is_given(local) ? local.as_number({.min = 1, .max = kMaxTheta}) : 10000;
    pair.sliding.scaling = {};
  }
  const Value alibi = text.at("alibi");
  if ((is_given(alibi) && alibi.as_bool(false)) || text.boolean("mla_use_nope", false)) pair = {};
  return pair;
}

}  // namespace kvtide
