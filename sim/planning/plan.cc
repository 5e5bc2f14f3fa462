#include "planning/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/yaml_value.h"
#include "experiment/serving_reader.h"
#include "experiment/setting_reader.h"
#include "gpu/gpu_profile.h"
#include "planning/plan_reader.h"

namespace kvtide::planning {
namespace {

using config::Value;

constexpr std::int64_t kMostGpus = 100'000;

std::vector<std::string> texts(const Value& list, std::vector<std::string> fallback) {
  if (!list.exists()) return fallback;
  std::vector<std::string> values;
  for (const Value& item : list.items()) values.push_back(item.as_string());
  if (values.empty()) list.error("expected at least one value");
  return values;
}

std::vector<std::int64_t> integers(const Value& list, std::vector<std::int64_t> fallback, std::int64_t max) {
  if (!list.exists()) return fallback;
  std::vector<std::int64_t> values;
  for (const Value& item : list.items()) values.push_back(item.as_integer({.fallback = {}, .min = 1, .max = max}));
  if (values.empty()) list.error("expected at least one value");
  return values;
}

void read_objectives(const Value& slo, Plan& plan) {
  for (const Metric metric : {Metric::ttft, Metric::tpot, Metric::latency}) {
    for (const std::int64_t percentile : {50, 90, 95, 99}) {
      const Objective objective{.metric = metric, .percentile = percentile, .seconds = 0};
      const Value value = slo.at(objective.name());
      if (!value.exists()) continue;
      plan.objectives.push_back(objective);
      plan.objectives.back().seconds =
          value.as_quantity({.dimension = Dimension::time, .fallback = {}, .min = 1e-6, .max = 1e6});
    }
  }
  // Keys that nobody knows are errors of their own.
  if (plan.objectives.empty() && (!slo.exists() || !slo.is_map() || slo.keys().empty())) {
    slo.error(
        "expected at least one objective, such as ttft_p95: \"500 ms\" (ttft, tpot, latency; p50, p90, p95, p99)");
  }
}

/// A name alone is a preset's, as in an experiment's `compression: NAME`.
void read_policies(const Value& list, const std::vector<std::int64_t>& block_sizes, Plan& plan) {
  std::vector<Value> items;
  if (list.exists()) items = list.items();
  for (const Value& item : items) {
    item.accept_all();
    const std::string text = item.text();
    const bool is_none = item.is_scalar() && text == "none";
    std::string label = text, yaml = text;
    bool has_block = false;
    if (item.is_scalar() && !is_none) yaml = fmt::format("{{preset: {}}}", text);
    if (item.is_map()) {
      const std::vector<std::string> keys = item.keys();
      const auto has = [&](const char* key) { return std::ranges::find(keys, key) != keys.end(); };
      has_block = has("block_size");
      if (has("label")) {
        label = item.at("label").text();
        if (!has("value")) {
          item.error("expected {label: ..., value: ...}");
          continue;
        }
        yaml = item.at("value").text();
        has_block = item.at("value").is_map() && item.at("value").at("block_size").exists();
      } else if (has("preset") && keys.size() == 1) {
        label = item.at("preset").text();
      }
    }
    // A policy without blocks of its own to choose stands once.
    if (is_none || has_block || block_sizes.empty()) {
      plan.policies.push_back({label, yaml, {}});
      continue;
    }
    for (const std::int64_t size : block_sizes) {
      plan.policies.push_back(
          {fmt::format("{} B{}", label, size), yaml, {{"compression.block_size", fmt::format("{}", size)}}});
    }
  }
  if (plan.policies.empty()) plan.policies.push_back({"none", "none", {}});
}

/// A price that no GPU of the plan has would be passed over in silence: a misspelt name, most likely.
void check_prices(const Value& prices, const std::vector<GpuType>& gpus) {
  const std::vector<std::string> known = gpu::known_gpus();
  for (const std::string& key : prices.keys()) {
    if (std::ranges::find(gpus, key, &GpuType::name) != gpus.end() || std::ranges::find(known, key) != known.end())
      continue;
    try {
      (void)gpu::load_gpu_profile(key);
    } catch (const InputError& error) {
      prices.at(key).error(error.what());
    }
  }
}

/// The profiles that an experiment beside the plan would get, each by its own name once.
void read_gpus(const Value& list, Plan& plan) {
  if (!list.exists()) return;
  experiment::NameResolver resolver(plan.base_folder);
  for (const std::string& profile : texts(list, {})) {
    const experiment::NameResolver::Resolved& resolved = resolver.gpu(profile);
    if (!resolved.error.empty()) {
      list.error(resolved.error);
      continue;
    }
    const std::string name = gpu::load_gpu_profile(resolved.path).name;
    if (std::ranges::find(plan.gpus, name, &GpuType::name) != plan.gpus.end()) {
      list.error(fmt::format("two GPU types are named {}: a profile of your own needs a name of its own", name));
      continue;
    }
    plan.gpus.push_back({.name = name, .profile = profile});
  }
}

/// One line of YAML. An engine's tensor_parallel is the plan's to choose among.
std::string text_without_ranks(const Value& section) {
  if (!section.is_map() || !section.at("tensor_parallel").exists()) return section.text();
  std::string text;
  for (const std::string& key : section.keys()) {
    if (key == "tensor_parallel") continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, section.at(key).text());
  }
  return "{" + text + "}";
}

/// The batch limits to choose among; without a list the engine's own, which a list replaces.
std::vector<std::int64_t> batch_limits(const Value& list, const Value& engine) {
  constexpr std::int64_t kUsual = 256, kMost = 65536;
  const bool has_own = engine.is_map() && engine.at("max_num_seqs").exists();
  if (list.exists() || !has_own) return integers(list, {kUsual}, kMost);
  return {engine.integer("max_num_seqs", {.fallback = kUsual, .min = 1, .max = kMost})};
}

void read_search(const Value& root, Plan& plan) {
  const Value value = root.at("plan");
  const config::QuantityRule any_rate{.dimension = Dimension::rate, .fallback = 0, .min = 0, .max = 1e6};
  plan.rate = value.quantity("rate", any_rate);
  plan.peak = value.number("peak", {.fallback = 1, .min = 1, .max = 1000});
  plan.spare = value.integer("spare_replicas", {.fallback = 0, .min = 0, .max = 1000});
  plan.num_gpus = value.integer("num_gpus", {.fallback = 0, .min = 0, .max = kMostGpus});
  plan.sample_requests = value.integer("sample_requests", {.fallback = 600, .min = 50, .max = 1'000'000});
  read_gpus(value.at("gpus"), plan);
  if (!value.at("gpus").exists()) value.error("gpus is required: the GPU types to choose among");
  const Value ranks = root.at("engine").at("tensor_parallel");
  if (ranks.exists() && value.at("tensor_parallel").exists()) ranks.error("plan.tensor_parallel says how many");
  plan.tensor_parallel =
      integers(value.at("tensor_parallel"), {ranks.as_integer({.fallback = 1, .min = 1, .max = 1024})}, 1024);
  plan.max_num_seqs = batch_limits(value.at("max_num_seqs"), root.at("engine"));
  read_policies(value.at("compression"), integers(value.at("block_size"), {}, 65536), plan);
  read_objectives(value.at("slo"), plan);

  plan.task = value.choice("task", {"retrieval", "code", "chat", "summarization"}, "retrieval");
  plan.loss = bound_of_task(plan.task);
  const Value loss = value.at("loss");
  plan.loss.mean_max = loss.number("mean_max", {.fallback = plan.loss.mean_max, .min = 0, .max = 1});
  plan.loss.worst_max = loss.number("worst_max", {.fallback = plan.loss.worst_max, .min = 0, .max = 1});
  const Value minimize = value.at("minimize"), maximize = value.at("maximize");
  if (minimize.exists() && maximize.exists()) value.error("minimize and maximize exclude each other");
  if (maximize.exists()) {
    (void)maximize.as_choice({"rate"});
    plan.goal = Goal::rate;
    if (plan.num_gpus == 0) value.error("maximize: rate needs num_gpus");
  } else {
    plan.goal = minimize.as_choice({"cost", "gpus"}, "cost") == "cost" ? Goal::cost : Goal::gpus;
  }

  plan.calibration = experiment::read_calibration(value.at("calibration"));
  const Value prices = value.at("prices");
  plan.prices.read(prices, "the plan");
  for (const GpuType& gpu : plan.gpus) {
    if (plan.goal == Goal::cost && !plan.prices.find(gpu.name)) {
      value.error(
          fmt::format("no price is known for {0}: give prices: {{{0}: \"1.00 USD/h\"}}, or minimize: gpus", gpu.name));
    }
  }
  if (prices.is_map()) check_prices(prices, plan.gpus);
  if (plan.num_candidates() > kMaxCandidates) {
    value.error(fmt::format("{} candidates, at most {}", plan.num_candidates(), kMaxCandidates));
  }
}

}  // namespace

std::string to_string(Metric value) {
  return value == Metric::ttft ? "ttft" : value == Metric::tpot ? "tpot" : "latency";
}

std::string to_string(Goal value) {
  return value == Goal::cost ? "cost" : value == Goal::gpus ? "gpus" : "rate";
}

std::string Objective::name() const {
  return fmt::format("{}_p{}", to_string(metric), percentile);
}

LossBound bound_of_task(const std::string& task) {
  if (task == "summarization") return {.mean_max = 0.10, .worst_max = 1};
  if (task == "chat") return {.mean_max = 0.05, .worst_max = 0.40};
  if (task == "code") return {.mean_max = 0.02, .worst_max = 0.20};
  return {.mean_max = 0.02, .worst_max = 0.10};
}

Plan read_plan(const config::Document& document, const std::string& path, const std::string& base_folder) {
  const Value root = document.root();
  Plan plan;
  plan.path = path;
  plan.base_folder = base_folder;
  if (!root.is_map()) {
    root.error("expected a mapping with the keys name, model, trace, workload, plan");
    return plan;
  }
  plan.prices = PriceList::shipped();
  plan.name = root.string("name");
  plan.model = root.string("model");
  plan.weights = experiment::read_weights(root);
  for (const char* key : {"trace", "workload"}) {
    if (!root.at(key).exists()) root.error(fmt::format("{} is required", key));
  }
  if (const Value workload = root.at("workload");
      workload.is_map() && workload.integer("seeds", {.fallback = 1}) != 1) {
    workload.at("seeds").error("a plan judges every candidate by the same requests: seeds is for kvtide run");
  }
  if (const Value loss = root.at("loss"); loss.is_map() && loss.at("metric").exists()) {
    // Bounds of a plan are shares of attention; output_loss and bits_lost are not.
    (void)loss.at("metric").as_choice({"mass_loss"});
  }
  for (const char* key :
       {"model", "weights", "trace", "workload", "engine", "loss", "context_tokens", "seed", "fidelity"}) {
    const Value section = root.at(key);
    if (!section.exists()) continue;
    section.accept_all();
    plan.experiment_head += fmt::format("{}: {}\n", key, text_without_ranks(section));
  }
  if (!root.at("plan").exists()) {
    root.error("plan is required");
  } else {
    read_search(root, plan);
  }
  root.finish();
  return plan;
}

Plan parse_plan(const std::string& yaml, const std::string& path, const std::string& base_folder,
                const std::vector<std::pair<std::string, std::string>>& sets) {
  config::Document document = config::Document::parse(yaml, path);
  for (const auto& [key, value] : sets) document.set(key, value);
  Plan plan = read_plan(document, path, base_folder);
  document.throw_if_errors();
  plan.yaml = yaml;
  for (const auto& [key, value] : sets) plan.overrides += fmt::format("{}={}\n", key, value);
  return plan;
}

Plan load_plan(const std::string& path, const std::vector<std::pair<std::string, std::string>>& sets) {
  const config::Document document = config::Document::load(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return parse_plan(document.text(), path, folder.empty() ? "." : folder, sets);
}

}  // namespace kvtide::planning
