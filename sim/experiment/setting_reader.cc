#include "experiment/setting_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "experiment/evict_reader.h"
#include "experiment/partition_reader.h"
#include "experiment/schedule_reader.h"
#include "experiment/serving_reader.h"
#include "experiment/trace_source.h"
#include "kv/compression/codec.h"

namespace kvtide::experiment {
namespace {

using config::Value;

/// A choice of which some values are planned and not built.
std::string available_choice(const Value& value, const std::vector<std::string>& available,
                             const std::vector<std::string>& planned, const std::string& fallback) {
  if (value.is_scalar() && std::ranges::find(planned, value.text()) != planned.end()) {
    value.error(fmt::format("not available yet: {} (available: {})", value.text(), fmt::join(available, ", ")));
    return fallback;
  }
  return value.as_choice(available, fallback);
}

/// The enumerator whose to_string() is `text`, which as_choice() has checked.
template <typename Enum>
Enum enumerator(const std::string& text, std::initializer_list<Enum> values) {
  return *std::ranges::find_if(values, [&](Enum value) { return to_string(value) == text; });
}

kv::RopeState read_rope(const Value& value, const std::string& fallback) {
  return value.as_choice({"pre", "post"}, fallback) == "pre" ? kv::RopeState::pre : kv::RopeState::post;
}

kv::Pool read_pool(const Value& value) {
  kv::Pool stage;
  stage.width = value.integer("width", {.fallback = 4, .min = 1, .max = 65536});
  stage.rope = read_rope(value.at("rope"), "post");
  stage.mass_correct = value.boolean("mass_correct", true);
  stage.weight = value.choice("weight", {"uniform", "cosine"}, "uniform") == "cosine" ? kv::PoolWeight::cosine
                                                                                      : kv::PoolWeight::uniform;
  return stage;
}

kv::LowRank read_low_rank(const Value& value) {
  kv::LowRank stage;
  const bool has_share = value.at("k_share").exists() || value.at("v_share").exists();
  if (has_share) {
    stage.k_share = read_share(value.at("k_share"), 0.5);
    stage.v_share = read_share(value.at("v_share"), 0.5);
    if (value.at("rank").exists()) value.at("rank").error("rank and k_share, v_share exclude each other");
  } else {
    stage.rank = value.integer("rank", {.fallback = 32, .min = 1, .max = 65536});
  }
  const std::string scope = value.choice("scope", {"block", "sequence", "model"}, "block");
  stage.scope = scope == "block"      ? kv::BasisScope::block
                : scope == "sequence" ? kv::BasisScope::sequence
                                      : kv::BasisScope::model;
  stage.heads = value.integer("heads", {.fallback = 1, .min = 1, .max = 65536});
  stage.layers = value.integer("layers", {.fallback = 1, .min = 1, .max = 65536});
  stage.k_rope = read_rope(value.at("k_rope"), "post");
  stage.keeps_channels = value.boolean("channels", false);
  if (stage.keeps_channels) {
    stage.channel_window = value.integer("channel_window", {.fallback = 32, .min = 1, .max = 65536});
  }
  return stage;
}

kv::GroupAxis read_axis(const Value& value, const std::string& fallback) {
  return value.as_choice({"channel", "token"}, fallback) == "channel" ? kv::GroupAxis::channel : kv::GroupAxis::token;
}

/// A codec's name.
std::string read_format(const Value& value, const std::string& fallback) {
  std::vector<std::string> formats{std::string(kv::kShortFp8)};
  for (const kv::Codec& codec : kv::codecs()) formats.emplace_back(codec.name);
  return std::string(kv::find_codec(value.as_choice(formats, fallback)).name);
}

kv::Quantize read_quantize(const Value& value) {
  kv::Quantize stage;
  const std::string format = read_format(value.at("format"), "int4");
  stage.k_format = read_format(value.at("k_format"), format);
  stage.v_format = read_format(value.at("v_format"), format);
  stage.group = value.integer("group", {.fallback = 32, .min = 1, .max = 65536});
  stage.k_axis = read_axis(value.at("k_axis"), "channel");
  stage.v_axis = read_axis(value.at("v_axis"), "token");
  stage.is_symmetric = value.boolean("symmetric", false);
  const bool is_pre = kv::find_codec(stage.k_format).k_rope == kv::RopeState::pre;
  stage.k_rope = read_rope(value.at("k_rope"), is_pre ? "pre" : "post");
  stage.residual = value.integer("residual", {.fallback = 0, .min = 0, .max = 1 << 20});
  if (value.choice("residual_from", {"start", "prompt"}, "start") == "prompt") stage.residual_start = kv::kFromPrompt;
  return stage;
}

/// One element of `stages`: a mapping with the stage's name as its only key.
void read_stage(const Value& element, std::vector<kv::Stage>& stages, kv::LayerBudget& layer_budget,
                NameResolver& resolver, const Model* model) {
  static const std::vector<std::string> kNames{"evict", "pool", "low_rank", "quantize"};
  const std::vector<std::string> keys = element.keys();
  if (!element.is_map()) return;
  if (keys.size() != 1) {
    element.error(
        fmt::format("expected a mapping with one of the keys {}, got {} keys", fmt::join(kNames, ", "), keys.size()));
    return;
  }
  // Asking for all names lets an unknown one be reported with its nearest.
  const Value evict = element.at("evict");
  const Value pool = element.at("pool");
  const Value low_rank = element.at("low_rank");
  const Value quantize = element.at("quantize");
  if (evict.exists()) {
    kv::Evict stage = read_evict(evict, resolver);
    read_heads_file(evict, stage, layer_budget, resolver, model);
    stages.emplace_back(std::move(stage));
    if (const Value budget = evict.at("budget"); budget.exists()) layer_budget = read_layer_budget(budget);
  }
  if (pool.exists()) stages.emplace_back(read_pool(pool));
  if (low_rank.exists()) stages.emplace_back(read_low_rank(low_rank));
  if (quantize.exists()) stages.emplace_back(read_quantize(quantize));
}

void read_compression(const Value& value, Setting& setting, const Model* model, NameResolver& resolver) {
  constexpr std::size_t kMaxStages = 16;
  kv::Compression& compression = setting.compression;
  if (value.is_scalar() && value.text() == "none") return;  // identity under the default partition
  compression.block_size = value.integer("block_size", {.fallback = 128, .min = 1, .max = 65536});
  read_partition(value, setting);
  const Value stages = value.at("stages");
  if (stages.exists() && !stages.is_null()) {
    for (const Value& element : stages.items())
      read_stage(element, compression.stages, setting.layer_budget, resolver, model);
    if (compression.stages.size() > kMaxStages) {
      stages.error(fmt::format("expected at most {} stages, got {}", kMaxStages, compression.stages.size()));
      compression.stages.clear();
    }
  }
  read_schedule(value, setting);
  if (model == nullptr) return;
  const std::vector<std::string> problems = kv::contradictions(compression, model->head_dim);
  if (!problems.empty()) (stages.exists() ? stages : value).error(fmt::format("{}", fmt::join(problems, "; ")));
}

void read_measure_queries(const Value& value, LossSetting& loss) {
  if (value.is_list()) {
    const std::vector<Value> ends = value.items();
    if (ends.size() != 2) {
      value.error(fmt::format("expected [first, last], got {} values", ends.size()));
      return;
    }
    loss.measure_queries = MeasureQueries::range;
    loss.first_query = ends[0].as_integer({.min = 0, .max = 1 << 24});
    loss.last_query = ends[1].as_integer({.min = 0, .max = 1 << 24});
    if (loss.last_query < loss.first_query) {
      value.error(fmt::format("expected first <= last, got [{}, {}]", loss.first_query, loss.last_query));
    }
    return;
  }
  loss.measure_queries = enumerator(value.as_choice({"question", "answer", "all"}, "question"),
                                    {MeasureQueries::question, MeasureQueries::answer, MeasureQueries::all});
}

void read_loss(const Value& value, LossSetting& loss) {
  loss.queries =
      enumerator(value.choice("queries", {"agnostic", "aware"}, "agnostic"), {QueryMode::agnostic, QueryMode::aware});
  loss.score_window = value.integer("score_window", {.fallback = 64, .min = 1, .max = 1 << 20});
  read_measure_queries(value.at("measure_queries"), loss);
  loss.metric = enumerator(value.choice("metric", {"mass_loss", "output_loss", "bits_lost"}, "mass_loss"),
                           {LossMetric::mass_loss, LossMetric::output_loss, LossMetric::bits_lost});
  loss.heads = loss::head_reduction_from_string(value.choice("heads", {"reader", "mean", "max"}, "reader"));
  loss.span = value.integer("span", {.fallback = 8, .min = 1, .max = 65536});
  loss.sample_queries = value.integer("sample_queries", {.fallback = 0, .min = 0, .max = 1 << 20});
  loss.requests = value.integer("requests", {.fallback = 1, .min = 1, .max = 4096});
}

void read_probe(const Value& value, Setting& setting) {
  if (!value.exists() || value.is_null()) return;
  loss::ProbeSpec probe;
  setting.moves_recorded_fact = value.choice("source", {"planted", "trace"}, "planted") == "trace";
  const std::string kind =
      value.choice("kind", {"factual", "keyword", "reasoning", "coreference", "multi_needle"}, "factual");
  for (const auto candidate : {loss::ProbeKind::factual, loss::ProbeKind::keyword, loss::ProbeKind::reasoning,
                               loss::ProbeKind::coreference, loss::ProbeKind::multi_needle}) {
    if (loss::to_string(candidate) == kind) probe.kind = candidate;
  }
  probe.span = value.integer("span", {.fallback = 14, .min = 1, .max = 65536});
  probe.margin = value.number("margin", {.fallback = 10, .min = -50, .max = 50});
  // An eighth of a block: steps in which a scan of a live system would move, too.
  const std::int64_t step = std::max<std::int64_t>(1, setting.compression.block_size / 8);
  probe.step = value.integer("step", {.fallback = step, .min = 1, .max = 1 << 24});
  probe.spacing = value.integer("spacing", {.fallback = 0, .min = 0, .max = 1 << 24});
  probe.codes = value.integer("codes", {.fallback = 16, .min = 2, .max = 4096});
  probe.readers = value.integer("readers", {.fallback = 1, .min = 0, .max = 1 << 20});
  setting.probe = probe;
}

void read_measure(const Value& value, MeasureSetting& measure) {
  if (!value.exists()) return;
  measure = {false, false, false, false, false, false};
  struct Name {
    const char* name;
    bool MeasureSetting::*field;
  };
  static constexpr Name kNames[] = {{"memory", &MeasureSetting::memory},
                                    {"time", &MeasureSetting::time},
                                    {"loss", &MeasureSetting::loss},
                                    {"position_scan", &MeasureSetting::position_scan},
                                    {"prefix_scan", &MeasureSetting::prefix_scan},
                                    {"detail", &MeasureSetting::detail}};
  std::vector<std::string> available;
  for (const Name& name : kNames) available.emplace_back(name.name);
  available.emplace_back("serving");  // needs no switch: it is measured wherever there is a workload
  for (const Value& element : value.items()) {
    const std::string chosen = available_choice(element, available, {"timeline"}, available.front());
    for (const Name& name : kNames) {
      if (chosen == name.name) measure.*(name.field) = true;
    }
  }
}

void read_synthetic(const Value& value, TraceSource& trace) {
  trace.kind = TraceKind::synthetic;
  trace.synthetic_kind = value.choice("kind", {"uniform", "needle", "recency", "ar1", "rope"});
  trace.parameters.emplace_back("tokens", value.integer("tokens", {.min = 16, .max = 1 << 20}));
  // Which further parameters a kind has, and how large, is the generator's to say; here each must be a number.
  constexpr std::int64_t kLargest = 1'000'000'000'000'000;  // exact as a double
  if (!value.is_map()) return;
  for (const std::string& key : value.keys()) {
    if (key == "kind" || key == "tokens") continue;
    trace.parameters.emplace_back(
        key, is_whole_parameter(key) ? static_cast<double>(value.integer(key, {.min = -kLargest, .max = kLargest}))
                                     : value.number(key));
  }
  std::ranges::sort(trace.parameters);
}

void read_trace(const Value& value, TraceSource& trace, NameResolver& resolver) {
  const auto path_of = [&](const Value& written) {
    std::string path = written.as_string();
    if (path.empty()) return path;
    const NameResolver::Resolved& resolved = resolver.trace(path);
    if (!resolved.error.empty()) written.error(fmt::format("\"{}\": {}", path, resolved.error));
    return resolved.path;
  };
  if (!value.is_map()) {
    trace.path = path_of(value);
  } else if (value.at("file").exists()) {
    trace.path = path_of(value.at("file"));
    if (value.at("companion").exists()) trace.companion = path_of(value.at("companion"));
  } else {
    read_synthetic(value.at("synthetic"), trace);
  }
}

}  // namespace

namespace {

void check_expert_ranks(const Value& ranks, const Setting& setting, const Model& model) {
  const std::int64_t asked = setting.expert_parallel;
  if (asked == 1) return;
  if (model.experts.num_experts == 0) {
    ranks.error(fmt::format("expected 1: the model has no experts to spread over {} ranks", asked));
  } else if (asked != setting.tensor_parallel) {
    ranks.error(fmt::format("expected 1 or tensor_parallel ({}), got {}", setting.tensor_parallel, asked));
  } else if (model.experts.num_experts % asked != 0) {
    ranks.error(fmt::format("expected a divisor of the model's {} experts, got {}", model.experts.num_experts, asked));
  }
}

/// `tensor_parallel` of the file, or of the engine; where both are given, they must agree.
Value read_ranks(const Value& root, Setting& setting) {
  const config::IntegerRule rule{.fallback = 1, .min = 1, .max = 1024};
  Value of_file = root.at("tensor_parallel"), of_engine = root.at("engine").at("tensor_parallel");
  setting.tensor_parallel = of_file.as_integer(rule);
  const std::int64_t ranks = of_engine.as_integer(rule);
  if (!of_engine.exists()) return of_file;
  if (of_file.exists() && ranks != setting.tensor_parallel) {
    of_engine.error(fmt::format("expected the file's tensor_parallel ({}), got {}", setting.tensor_parallel, ranks));
  }
  setting.tensor_parallel = ranks;
  return of_engine;
}

WeightStorage stored_weights(const std::string& weights, const Model& served) {
  const auto format = weight_format(weights);
  return format ? served.stored_in(*format) : served.published_weights.storage.value_or(WeightStorage{});
}

/// How the machine is used: ranks, stages, tier of its memory.
void read_machine(const Value& root, Setting& setting, NameResolver& resolver) {
  const Value ranks = read_ranks(root, setting);
  setting.expert_parallel = root.integer("expert_parallel", {.fallback = 1, .min = 1, .max = 1024});
  setting.pipeline_parallel = root.integer("pipeline_parallel", {.fallback = 1, .min = 1, .max = 1024});
  setting.fidelity = enumerator(root.choice("fidelity", {"detailed", "sampled", "roofline"}, "sampled"),
                                {gpu::Fidelity::detailed, gpu::Fidelity::sampled, gpu::Fidelity::roofline});
  if (!setting.gpu.empty()) {
    const NameResolver::Resolved& resolved = resolver.gpu(setting.gpu);
    if (resolved.error.empty() && setting.tensor_parallel > resolved.most_ranks) {
      ranks.error(
          fmt::format("the interconnect of this GPU joins {}, got {}", resolved.most_ranks, setting.tensor_parallel));
    }
  }
  if (setting.model.empty()) return;
  const std::shared_ptr<const Model> model = resolver.model(setting.model).model;
  if (model == nullptr) return;
  if (model->num_query_heads % setting.tensor_parallel != 0) {
    ranks.error(fmt::format("expected a divisor of the model's {} query heads, got {}", model->num_query_heads,
                            setting.tensor_parallel));
  } else {
    try {
      (void)model->layers_of_rank(setting.tensor_parallel);
    } catch (const InputError& error) {
      ranks.error(error.what());
    }
  }
  check_expert_ranks(root.at("expert_parallel"), setting, *model);
  if (setting.pipeline_parallel > model->num_layers) {
    root.at("pipeline_parallel")
        .error(fmt::format("expected at most the model's {} layers, got {}", model->num_layers,
                           setting.pipeline_parallel));
  }
}

}  // namespace

std::string read_weights(const Value& root) {
  std::vector<std::string> allowed{"published"};
  std::ranges::copy(weight_format_names(), std::back_inserter(allowed));
  return root.choice("weights", allowed, "published");
}

Setting read_setting(const Value& root, NameResolver& resolver) {
  Setting setting;
  std::shared_ptr<const Model> served;
  const Value model = root.at("model");
  setting.model = model.as_string();
  if (!setting.model.empty()) {
    const NameResolver::Resolved& resolved = resolver.model(setting.model);
    if (!resolved.error.empty()) model.error(resolved.error);
    setting.model = resolved.path;
    served = resolved.model;
  }
  const Value gpu = root.at("gpu");
  setting.gpu = gpu.as_string();
  if (!setting.gpu.empty()) {
    const NameResolver::Resolved& resolved = resolver.gpu(setting.gpu);
    if (!resolved.error.empty()) gpu.error(resolved.error);
    setting.gpu = resolved.path;
  }
  read_trace(root.at("trace"), setting.trace, resolver);
  setting.context_tokens = root.integer("context_tokens", {.fallback = 32768, .min = 1, .max = 1 << 24});
  setting.batch = root.integer("batch", {.fallback = 8, .min = 1, .max = 1 << 20});
  const std::string weights = read_weights(root);
  if (served != nullptr) setting.weights = stored_weights(weights, *served);
  read_machine(root, setting, resolver);
  const Value cache = root.at("cache");
  setting.page_size = cache.integer("page_size", {.fallback = 16, .min = 1, .max = 65536});
  setting.layout = enumerator(cache.choice("layout", {"per_head", "shared"}, "per_head"),
                              {kv::CacheLayout::per_head, kv::CacheLayout::shared});
  read_compression(root.at("compression"), setting, served.get(), resolver);
  read_loss(root.at("loss"), setting.loss);
  read_measure(root.at("measure"), setting.measure);
  read_probe(root.at("probe"), setting);
  setting.seed = static_cast<std::uint64_t>(root.integer("seed", {.fallback = 1, .min = 0}));
  setting.serving = read_serving(root, [&](const std::string& path) { return resolver.located(path); });
  if (const std::string keys = unserved_keys(setting); setting.serving && !keys.empty())
    root.at("workload").error(fmt::format("not available with {}", keys));
  const Value plan = root.at("plan");
  plan.accept_all();
  if (plan.exists()) plan.error("not available yet: plan (available: the keys of an experiment)");
  return setting;
}

}  // namespace kvtide::experiment
