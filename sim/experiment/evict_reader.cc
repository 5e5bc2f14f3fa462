#include "experiment/evict_reader.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "experiment/evict_text.h"
#include "experiment/head_table.h"
#include "kv/compression/scorer.h"

namespace kvtide::experiment {
namespace {

using config::Value;

/// The enumerator written as `key`; absent: the first.
template <typename Enum>
Enum read_named(const Value& parent, const char* key, std::initializer_list<Enum> values) {
  std::vector<std::string> names;
  for (const Enum value : values) names.push_back(to_string(value));
  const std::string name = parent.choice(key, names, names.front());
  std::size_t index = 0;
  while (index + 1 < names.size() && names[index] != name) ++index;
  return *(values.begin() + index);
}

kv::ScorerParameters read_parameters(const Value& value, const kv::ScorerEntry& entry) {
  kv::ScorerParameters given;
  for (const kv::ScorerParameter& parameter : entry.parameters) {
    const Value written = value.at(parameter.name);
    if (!written.exists()) continue;
    const double number =
        parameter.is_integer
            ? static_cast<double>(written.as_integer({.fallback = std::llround(parameter.fallback),
                                                      .min = std::llround(parameter.min),
                                                      .max = std::llround(parameter.max)}))
            : written.as_number({.fallback = parameter.fallback, .min = parameter.min, .max = parameter.max});
    given.emplace_back(parameter.name, number);
  }
  return kv::resolved_parameters(entry, given);
}

}  // namespace

std::optional<kv::PartsPerMillion> exact_parts(const Value& value, double share) {
  const double parts = share * 1e6;
  const double whole = std::round(parts);
  if (std::abs(parts - whole) <= 1e-6 && (whole >= 1 || share == 0)) return static_cast<kv::PartsPerMillion>(whole);
  value.error(fmt::format("expected at most six decimals, got {}", value.text()));
  return std::nullopt;
}

kv::PartsPerMillion read_share(const Value& value, double fallback) {
  const double ratio = value.as_number({.fallback = fallback, .min = 0, .max = 1, .min_is_open = true});
  return exact_parts(value, ratio).value_or(500000);
}

kv::Evict read_evict(const Value& value, NameResolver& resolver) {
  kv::Evict stage;
  std::vector<std::string> names;
  for (const kv::ScorerEntry& entry : kv::scorers()) names.push_back(entry.name);
  stage.scorer = value.choice("scorer", names, "attention_sum");
  stage.parameters = read_parameters(value, kv::find_scorer(stage.scorer));
  stage.granularity = read_named(value, "granularity", {kv::Granularity::block, kv::Granularity::token});
  stage.keep = read_share(value.at("keep_ratio"), 0.5);
  stage.heads = read_named(value, "heads", {kv::HeadScope::per_head, kv::HeadScope::shared, kv::HeadScope::adaptive});
  stage.block_score = read_named(value, "block_score", {kv::BlockScore::sum, kv::BlockScore::mean});
  stage.selection =
      read_named(value, "selection",
                 {kv::Selection::top, kv::Selection::quota, kv::Selection::iterative, kv::Selection::entropy_gated});
  if (stage.selection == kv::Selection::entropy_gated) {
    stage.low_entropy_kept = value.integer("low_entropy_kept", {.fallback = 4, .min = 1, .max = 65536});
  }
  if (stage.heads == kv::HeadScope::adaptive) stage.safeguard = read_share(value.at("safeguard"), 0.2);
  if (const Value threshold = value.at("threshold"); threshold.exists()) stage.threshold = threshold.as_number();
  if (const Value critical = value.at("critical"); critical.exists()) {
    if (critical.is_map()) {
      stage.critical.emplace();
      stage.critical->epsilon = critical.number("epsilon", {.fallback = 1e-4, .min = 0, .max = 1});
      stage.critical->first_stage = read_share(critical.at("first_stage"), 0.5);
    } else if (critical.as_bool(false)) {
      stage.critical.emplace();
    }
  }
  stage.rest = read_named(value, "rest",
                          {kv::Rest::dropped, kv::Rest::unread, kv::Rest::host, kv::Rest::values, kv::Rest::weighted,
                           kv::Rest::votes, kv::Rest::neighbours, kv::Rest::following, kv::Rest::compensated});
  if (const Value similarity = value.at("similarity"); similarity.exists()) {
    stage.similarity = similarity.as_number({.min = -1, .max = 1});
  }
  if (stage.rest == kv::Rest::following)
    stage.spread = value.integer("spread", {.fallback = 32, .min = 1, .max = 65536});
  if (stage.scorer == "file") {
    const Value kept = value.at("kept");
    stage.kept_file = kept.as_string();
    stage.kept_method = value.string("method", "");
    if (!stage.kept_file.empty()) {
      const NameResolver::Resolved& resolved = resolver.trace(stage.kept_file);
      if (!resolved.error.empty()) kept.error(fmt::format("\"{}\": {}", stage.kept_file, resolved.error));
      stage.kept_file = resolved.path;
    }
  }
  return stage;
}

void read_heads_file(const Value& evict, kv::Evict& stage, kv::LayerBudget& budget, NameResolver& resolver,
                     const Model* model) {
  const Value file = evict.at("heads_file");
  if (!file.exists()) return;
  const double beta = evict.number("beta", {.fallback = 1.2, .min = 1, .max = 1e6});
  if (evict.at("budget").exists()) file.error("expected either heads_file or budget, got both");
  if (stage.heads == kv::HeadScope::shared || stage.selection != kv::Selection::top || stage.critical) {
    file.error("expected heads per_head, selection top and no critical stage: every head has a budget of its own");
  }
  stage.heads = kv::HeadScope::per_head;
  stage.threshold.reset();
  const auto parameter = [&](std::string_view name) {
    for (const auto& [known, value] : stage.parameters) {
      if (known == name) return value;
    }
    return 0.0;
  };
  budget.kind = kv::LayerBudget::Kind::heads;
  budget.head_rule = {.keeps_whole_heads = stage.scorer == "retrieval_heads",
                      .share = std::llround(parameter("share") * 1e6),
                      .beta = beta,
                      .window = std::llround(parameter("window"))};
  const std::string path = resolver.located(file.as_string());
  try {
    budget.heads = read_head_table(path);
  } catch (const InputError& error) {
    file.error(error.what());
    budget = {};
    return;
  }
  if (model == nullptr) return;
  const auto fitted = kv::of_kv_heads(budget.heads, model->num_layers, model->num_query_heads, model->num_kv_heads);
  if (fitted) {
    budget.heads = *fitted;
  } else {
    budget.heads_misfit =
        fmt::format("{}: a table of {} x {} heads; expected that of {}, {} x {} query heads or {} x {} KV heads", path,
                    budget.heads.num_layers, budget.heads.num_heads, model->name, model->num_layers,
                    model->num_query_heads, model->num_layers, model->num_kv_heads);
  }
}

kv::LayerBudget read_layer_budget(const Value& value) {
  kv::LayerBudget budget;
  if (!value.exists()) return budget;
  if (value.is_scalar()) {
    const std::string kind = value.as_choice({"uniform", "pyramid", "lazy"}, "uniform");
    budget.kind = kind == "pyramid" ? kv::LayerBudget::Kind::pyramid
                  : kind == "lazy"  ? kv::LayerBudget::Kind::lazy
                                    : kv::LayerBudget::Kind::uniform;
    return budget;
  }
  if (value.keys().size() != 1) {
    value.error("expected one of uniform, pyramid, lazy, or a mapping with one of the keys pyramid, lazy, layers");
    return budget;
  }
  if (const Value pyramid = value.at("pyramid"); pyramid.exists()) {
    budget.kind = kv::LayerBudget::Kind::pyramid;
    budget.pyramid.beta = pyramid.number("beta", {.fallback = 20, .min = 1, .max = 1e6});
    budget.pyramid.window = pyramid.integer("window", {.fallback = 64, .min = 0, .max = 1 << 24});
  }
  if (const Value lazy = value.at("lazy"); lazy.exists()) {
    budget.kind = kv::LayerBudget::Kind::lazy;
    budget.lazy_threshold = lazy.number("threshold", {.fallback = 0.9, .min = 0, .max = 1});
    budget.lazy_kept = lazy.integer("kept", {.fallback = 1028, .min = 1, .max = 1 << 24});
  }
  if (const Value layers = value.at("layers"); layers.exists()) {
    budget.kind = kv::LayerBudget::Kind::table;
    for (const Value& layer : layers.items()) budget.table.push_back(read_share(layer, 0.5));
    if (budget.table.empty() || budget.table.size() > 4096) {
      layers.error("expected 1..4096 keep ratios, first layer to last");
      budget.table = {500000};
    }
  }
  return budget;
}

}  // namespace kvtide::experiment
