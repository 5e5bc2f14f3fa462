#include "experiment/validation/peer_method.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/yaml_value.h"
#include "kv/compression/pyramid_budget.h"
#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

using config::Value;

/// A scorer class of the peer, and its parameters by the peer's names and ours.
struct ScorerClass {
  const char* name;
  const char* scorer;
  std::vector<std::pair<const char*, const char*>> parameters;
  bool is_stochastic = false;
};

const std::vector<ScorerClass>& scorer_classes() {
  static const std::vector<ScorerClass> classes{
      {"KnormPress", "knorm", {}},
      {"KeyDiffPress", "keydiff", {}},
      {"SnapKVPress", "snapkv", {{"window_size", "window"}, {"kernel_size", "kernel"}}},
      {"TOVAPress", "tova", {}},
      {"StreamingLLMPress", "streaming", {{"n_sink", "sinks"}}},
      {"ObservedAttentionPress", "observed_attention", {}},
      {"FinchPress", "finch", {{"window_size", "window"}}},
      {"LagKVPress", "lagkv", {{"n_sink", "sinks"}, {"lag_size", "lag"}, {"cross_scoring", "cross_scoring"}}},
      {"CURPress", "cur", {{"num_sinks", "sinks"}, {"local_window_size", "window"}}},
      {"ExpectedAttentionPress",
       "expected_attention",
       {{"n_future_positions", "future"},
        {"n_sink", "sinks"},
        {"use_covariance", "covariance"},
        {"use_vnorm", "value_norm"},
        {"epsilon", "epsilon"}}},
      {"NonCausalAttnPress", "non_causal", {{"chunk_size", "chunk"}}},
      {"CapPress",
       "cap",
       {{"tau", "tau"}, {"n_future_positions", "future"}, {"n_sink", "sinks"}, {"epsilon", "epsilon"}}},
      {"LeverageScorePress", "leverage", {{"sketch_dimension", "sketch"}}, true},
      {"CompactorPress",
       "compactor",
       {{"sink_size_start", "first_kept"},
        {"sink_size_end", "last_kept"},
        {"chunk_size", "chunk"},
        {"sketch_dimension", "sketch"},
        {"blending", "blending"}},
       true},
      {"RandomPress", "random", {}, true},
  };
  return classes;
}

double number_of(const Value& value, double fallback) {
  if (!value.exists() || value.is_null()) return fallback;
  const std::string text = value.text();
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  return value.as_number({.fallback = fallback});
}

/// Fills the stage of a scorer class. @return whether it is one
bool read_scorer(const Value& value, PeerMethod& method, kv::Evict& stage) {
  const std::string name = value.string("class", "");
  for (const ScorerClass& known : scorer_classes()) {
    if (name != known.name) continue;
    stage.scorer = known.scorer;
    method.is_stochastic = known.is_stochastic;
    for (const auto& [theirs, ours] : known.parameters) {
      const Value given = value.at(theirs);
      if (given.exists() && !given.is_null()) stage.parameters.emplace_back(ours, number_of(given, 0));
    }
    if (stage.scorer == "compactor") {
      stage.parameters.emplace_back("padded", 1);
      method.blends_drawn = !value.at("blending").exists() || value.at("blending").is_null();
    }
    // CUR without local windows, or of one side only.
    if (stage.scorer == "cur") {
      const std::string leverage = value.string("leverage_type", "kv_product");
      stage.parameters.emplace_back("leverage", leverage == "key"      ? 1
                                                : leverage == "value"  ? 2
                                                : leverage == "kv_avg" ? 3
                                                                       : 0);
      if (value.string("use_local_approximation", "true") == "false") stage.parameters.emplace_back("window", 0);
      if (value.string("use_random_leverage", "false") == "true") method.is_stochastic = true;
    }
    std::ranges::sort(stage.parameters);
    return true;
  }
  return false;
}

kv::CriticalStage critical_of(const Value& value) {
  return {number_of(value.at("epsilon"), 1e-4),
          static_cast<kv::PartsPerMillion>(std::llround(number_of(value.at("first_stage_ratio"), 0.5) * 1e6))};
}

std::int64_t integer_of(const Value& value, std::int64_t fallback) {
  return std::llround(number_of(value, static_cast<double>(fallback)));
}

/// A class that wraps a scorer. @return whether we know it
bool read_wrapper(const Value& value, PeerMethod& method, kv::Evict& stage) {
  const std::string name = value.string("class", "");
  const Value inner = value.at("press");
  kv::Compression& setting = method.setting;
  const auto safeguard = [&] {
    stage.heads = kv::HeadScope::adaptive;
    stage.safeguard = std::llround(number_of(value.at("alpha_safeguard"), 0.2) * 1e6);
  };
  const auto in_blocks = [&](const char* key, std::int64_t fallback, kv::Selection selection) {
    setting.block_size = std::max<std::int64_t>(1, integer_of(value.at(key), fallback));
    stage.selection = selection;
  };
  if (name == "AdaKVPress") {
    safeguard();
  } else if (name == "CriticalKVPress") {
    stage.critical = critical_of(value);
    if (!inner.exists()) {  // recorded without its inner press, whose name then stands in the method's
      stage.scorer = "snapkv";
      return true;
    }
  } else if (name == "CriticalAdaKVPress") {
    stage.critical = critical_of(value);
    safeguard();
  } else if (name == "BlockPress") {
    in_blocks("block_size", 128, kv::Selection::iterative);
  } else if (name == "ChunkPress") {
    in_blocks("chunk_length", 1024, kv::Selection::quota);
  } else if (name == "ChunkKVPress") {
    in_blocks("chunk_length", 20, kv::Selection::top);
    stage.granularity = kv::Granularity::block;
    stage.block_score = kv::BlockScore::mean;
    stage.heads = kv::HeadScope::shared;
  } else if (name == "EntropyGatedChunkKVPress") {
    in_blocks("chunk_length", 10, kv::Selection::entropy_gated);
    stage.low_entropy_kept = integer_of(value.at("low_entropy_chunk_length"), 4);
  } else if (name == "KeyRerotationPress") {
    // Chooses as the press inside does; what it turns are the keys that stay.
  } else if (name == "DMSPress") {
    const Value threshold = value.at("threshold");
    if (!threshold.exists() || threshold.is_null()) return false;
    stage.threshold = number_of(threshold, 0);
    setting.window = integer_of(value.at("sliding_window_size"), 128);
  } else if (name == "MergingPress") {
    method.kind = PeerKind::merged_values;
    method.merge = {number_of(value.at("similarity_threshold"), 0), number_of(value.at("merge_fraction"), 1)};
  } else {
    return false;
  }
  return read_scorer(inner, method, stage);
}

}  // namespace

PeerMethod peer_method(const std::string& name, const std::string& parameters) {
  PeerMethod method;
  method.setting.block_size = 1;
  method.setting.sinks = 0;
  method.setting.window = 0;
  method.setting.protects_filling_block = false;
  if (parameters.empty()) return method;
  try {
    const config::Document document = config::Document::parse(parameters, name);
    const Value root = document.root();
    if (!root.is_map()) return method;
    kv::Evict stage;
    stage.granularity = kv::Granularity::token;
    const std::string kind = root.string("class", "");
    method.kind = PeerKind::evict;
    if (kind == "PyramidKVPress") {
      method.kind = PeerKind::pyramid;
      method.pyramid_beta = number_of(root.at("beta"), 20);
      method.window = integer_of(root.at("window_size"), 64);
      stage.scorer = "snapkv";
      stage.parameters = {{"kernel", number_of(root.at("kernel_size"), 5)},
                          {"window", static_cast<double>(method.window)}};
    } else if (kind == "SimLayerKVPress") {
      method.kind = PeerKind::lazy_layers;
    } else if (kind == "ThinKPress") {
      method.kind = PeerKind::key_channels;
      method.window = integer_of(root.at("window_size"), 32);
    } else if (!read_scorer(root, method, stage) && !read_wrapper(root, method, stage)) {
      method.kind = PeerKind::unknown;
    }
    if (!document.errors().empty()) method.kind = PeerKind::unknown;
    method.setting.stages = {stage};
  } catch (const Error&) {
    method.kind = PeerKind::unknown;
  }
  return method;
}

kv::Compression at_ratio(const PeerMethod& method, double removed, std::int64_t num_positions, std::int64_t layer,
                         std::int64_t num_layers) {
  kv::Compression setting = method.setting;
  auto& stage = std::get<kv::Evict>(setting.stages.front());
  const bool by_block = stage.granularity == kv::Granularity::block;
  const std::int64_t num = by_block ? (num_positions + setting.block_size - 1) / setting.block_size : num_positions;
  std::int64_t count = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(num) * (1 - removed)));
  if (method.kind == PeerKind::pyramid) {
    count = kv::pyramid_count({method.window, method.pyramid_beta}, num_positions, std::llround((1 - removed) * 1e6),
                              layer, num_layers);
  }
  stage.keep = kv::keep_for_count(num, count);
  return setting;
}

}  // namespace kvtide::experiment
