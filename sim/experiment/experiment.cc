#include "experiment/experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "config/yaml_value.h"
#include "experiment/baseline.h"
#include "experiment/include.h"
#include "experiment/preset/preset.h"
#include "experiment/setting_reader.h"
#include "experiment/sweep.h"
#include "kv/served_cache.h"

namespace kvtide::experiment {
namespace {

/// Of the trace's file and, where one is named, its companion.
std::string trace_fingerprint(const config::Value& trace, NameResolver& resolver) {
  if (!trace.is_map()) return resolver.trace(trace.text()).fingerprint;
  std::string fingerprint = resolver.trace(trace.at("file").text()).fingerprint;
  if (trace.at("companion").exists()) fingerprint += " " + resolver.trace(trace.at("companion").text()).fingerprint;
  return fingerprint;
}

using config::Document;

/// Errors of many documents that are copies of one: each sentence once, in order of appearance.
class ErrorList {
 public:
  void add(const std::vector<std::string>& errors) {
    for (const std::string& error : errors) {
      if (seen_.insert(error).second) errors_.push_back(error);
    }
  }
  [[nodiscard]] bool is_long() const { return errors_.size() >= 100; }
  void throw_if_any() const {
    if (!errors_.empty()) throw InputError(fmt::format("{}", fmt::join(errors_, "\n")));
  }

 private:
  std::vector<std::string> errors_;
  std::set<std::string> seen_;
};

void finish_run(Run& run, NameResolver& resolver, const config::Value& root) {
  Setting& setting = run.setting;
  const std::string trace =
      setting.trace.kind == TraceKind::recorded ? trace_fingerprint(root.at("trace"), resolver) : "";
  const std::string content = canonical_text(setting, resolver.model(root.at("model").text()).fingerprint,
                                             resolver.gpu(root.at("gpu").text()).fingerprint, trace);
  run.key = fnv1a64(content);
  run.seed = mix64(run.key);
  if (setting.compression.partition.kind == kv::PartitionKind::random_offset) {
    setting.compression.grid_offset = static_cast<std::int64_t>(
        RandomStream(run.seed, "grid_offset").below(static_cast<std::uint64_t>(setting.compression.block_size)));
  }
}

/// Puts combination `index` of the sweep into the document. @return [axis] index of its value
/// @throws InputError when a key lies below something that is no mapping
std::vector<std::int64_t> put_combination(Document& document, const Sweep& sweep, std::uint64_t index) {
  std::vector<std::size_t> points(sweep.groups.size());
  for (std::size_t i = points.size(); i-- > 0;) {
    const std::size_t length = std::max<std::size_t>(sweep.groups[i].num_points, 1);
    points[i] = index % length;
    index /= length;
  }
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const SweepAxis& axis : sweep.groups[i].axes) {
      values.push_back(static_cast<std::int64_t>(points[i]));
      if (axis.values.empty()) continue;
      const SweepValue& value = axis.values[points[i]];
      if (value.node) {
        document.set(axis.axis.column, *value.node);
      } else {
        document.set(axis.axis.column, value.yaml, *value.made_at);
      }
    }
  }
  return values;
}

/// "compression.stages[0].evict.keep_ratio" or "compression.stages.0.evict..." -> "compression.stages[].evict.keep_ratio"
std::string asked_path(const std::string& dotted_key) {
  std::string path;
  for (std::size_t begin = 0; begin < dotted_key.size();) {
    const std::size_t end = std::min(dotted_key.find_first_of(".[", begin), dotted_key.size());
    std::string part = dotted_key.substr(begin, end - begin);
    if (!part.empty() && part.back() == ']') part.pop_back();
    if (!part.empty()) {
      const bool is_element = part.find_first_not_of("0123456789") == std::string::npos;
      path += is_element ? "[]" : path.empty() ? part : "." + part;
    }
    begin = end + 1;
  }
  return path;
}

/// Keys and values that stand in a sweep's axes, zips and points; ranges have none.
std::vector<std::pair<std::string, config::Value>> written_values(const config::Value& sweep) {
  std::vector<std::pair<std::string, config::Value>> values;
  const auto add = [&values](const std::string& key, const config::Value& element) {
    const bool is_labelled = element.is_map() && element.at("value").exists();
    values.emplace_back(key, is_labelled ? element.at("value") : element);
  };
  const auto add_axes = [&add](const config::Value& axes) {
    if (!axes.is_map()) return;
    for (const std::string& key : axes.keys()) {
      if (key == "zip" || key == "list" || key == "when" || !axes.at(key).is_list()) continue;
      for (const config::Value& element : axes.at(key).items()) add(key, element);
    }
  };
  const auto elements = [](const config::Value& list) {
    return list.is_list() ? list.items() : std::vector<config::Value>{};
  };
  if (!sweep.is_map()) return values;
  add_axes(sweep);
  add_axes(sweep.at("zip"));
  for (const config::Value& zip : elements(sweep.at("zip"))) add_axes(zip);
  for (const config::Value& point : elements(sweep.at("list"))) {
    if (!point.is_map()) continue;
    for (const std::string& key : point.keys()) values.emplace_back(key, point.at(key));
  }
  if (sweep.at("sample").is_map()) add_axes(sweep.at("sample").at("axes"));
  return values;
}

/// Whether reading `file`, a copy, with `key` in it asks for an integer there; nothing where it does not ask for the key.
/// What is wrong with the file is found elsewhere.
std::optional<bool> asks_for_integer(Document file, const std::string& key, NameResolver& resolver) {
  try {
    file.set(key, "1");
    file.record_asked();
    expand_preset(file);
    (void)read_setting(file.root(), resolver);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::optional<bool> is_integer;
  for (const std::string path = asked_path(key); const config::AskedKey& asked : file.asked()) {
    if (asked.path == path) is_integer = is_integer.value_or(false) || asked.kind == config::AskedKey::Kind::integer;
  }
  return is_integer;
}

/// Whether the file takes an integer at `key`: as it stands, or else with the first value of another axis that makes it ask.
bool is_integer_key(const Document& file, const std::string& key, NameResolver& resolver) {
  const Document original = file.clone();  // looking at a key marks it as known
  Document without_sweep = file.clone();
  without_sweep.set("sweep", "null");
  if (const auto asked = asks_for_integer(without_sweep.clone(), key, resolver)) return *asked;
  for (const auto& [other, value] : written_values(original.root().at("sweep"))) {
    if (other == key) continue;
    Document copy = without_sweep.clone();
    try {
      copy.set(other, value);
    } catch (const Error&) {
      continue;
    }
    if (const auto asked = asks_for_integer(std::move(copy), key, resolver)) return *asked;
  }
  return false;
}

/// Whether all conditions of the sweep hold; what is wrong with one is recorded at its place in `file`.
bool is_wanted(const Document& run, const Sweep& sweep, const std::vector<Axis>& axes,
               const std::vector<std::int64_t>& axis_values, const Document& file) {
  if (sweep.conditions.empty() || !file.errors().empty()) return true;
  const Document copy = run.clone();  // looking at a key marks it as known
  const auto value_of = [&](const std::string& key) -> std::optional<std::string> {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].column == key) return axes[i].labels[static_cast<std::size_t>(axis_values[i])];
    }
    config::Value value = copy.root();
    for (std::size_t begin = 0; begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      if (!value.is_map()) return std::nullopt;
      value = value.at(key.substr(begin, end - begin));
      begin = end + 1;
    }
    return value.exists() ? std::optional(value.text()) : std::nullopt;
  };
  for (const auto& [condition, place] : sweep.conditions) {
    try {
      if (!holds(condition, value_of)) return false;
    } catch (const InputError& error) {
      place.error(error.what());
      return true;
    }
  }
  return true;
}

bool quantizes(const kv::Compression& setting) {
  return std::ranges::any_of(setting.stages,
                             [](const kv::Stage& stage) { return std::holds_alternative<kv::Quantize>(stage); });
}

void warn(const Run& run, const Model& model, std::set<std::string>& warnings) {
  const Setting& setting = run.setting;
  if (model.max_positions > 0 && setting.context_tokens > model.max_positions) {
    warnings.insert(fmt::format("context_tokens {} is more than the {} positions of {}", setting.context_tokens,
                                model.max_positions, model.name));
  }
  std::int64_t num_windows = 0;
  for (const LayerKind& kind : model.layers) num_windows += kind.window > 0 ? kind.count : 0;
  if (num_windows > 0 && quantizes(setting.compression) && !kv::quantizes_every_entry(setting.compression)) {
    warnings.insert(fmt::format(
        "quantize leaves {} of the {} layers of {} at 16 bits: beside protected positions, a residual or other stages "
        "a window is stored as it is",
        num_windows, model.num_layers, model.name));
  }
  if (setting.compression.block_size > setting.context_tokens) {
    warnings.insert(fmt::format(
        "compression.block_size {} is larger than context_tokens {}: one protected block, nothing is compressed",
        setting.compression.block_size, setting.context_tokens));
  }
}

}  // namespace

std::string run_name(std::int64_t index) {
  return fmt::format("{:05}", index);
}

Experiment parse_experiment(const std::string& yaml, const std::string& path, const std::string& base_folder,
                            const Overrides& overrides) {
  Document document = Document::parse(yaml, path);
  const std::string included_yaml = resolve_includes(document, base_folder);
  for (const auto& [key, value] : overrides.sets) document.set(key, value);
  if (overrides.seed) document.set("seed", fmt::format("{}", *overrides.seed));

  Experiment experiment;
  experiment.path = path;
  experiment.yaml = yaml;
  experiment.included_yaml = included_yaml;
  experiment.sets = overrides.sets;
  if (overrides.seed) experiment.sets.emplace_back("seed", fmt::format("{}", *overrides.seed));
  if (!document.root().is_map()) {
    document.root().error("expected a mapping with the keys name, model, gpu, trace");
    document.throw_if_errors();
  }
  experiment.name = document.root().string("name");
  if (experiment.name.size() > 200) document.root().at("name").error("expected at most 200 characters");
  NameResolver resolver(base_folder);
  const Sweep sweep = read_sweep(document.root().at("sweep"), overrides,
                                 [&](const std::string& key) { return is_integer_key(document, key, resolver); });
  for (const SweepGroup& group : sweep.groups) {
    for (const SweepAxis& axis : group.axes) experiment.axes.push_back(axis.axis);
  }

  ErrorList errors;
  errors.add(document.errors());
  const std::uint64_t total = document.errors().empty() ? sweep.num_combinations() : 1;
  // Copied once per run: without the sweep, whose lists may be longer than everything else.
  Document without_sweep = document.clone();
  without_sweep.set("sweep", "null");
  std::set<std::string> warnings;
  std::string keys;
  for (std::uint64_t index = 0; index < total && !errors.is_long(); ++index) {
    Document copy = without_sweep.clone();
    Run run;
    run.index = static_cast<std::int64_t>(experiment.runs.size());
    try {
      run.axis_values = put_combination(copy, sweep, index);
    } catch (const InputError& error) {
      errors.add({fmt::format("{}: sweep: {}", path, error.what())});
      break;
    }
    if (!is_wanted(copy, sweep, experiment.axes, run.axis_values, document)) continue;
    expand_preset(copy);
    const config::Value root = copy.root();
    (void)root.at("name");
    root.at("sweep").accept_all();
    root.at("claim").accept_all();  // read by claim.h
    root.at("baseline").accept_all();
    root.at("include").accept_all();
    run.setting = read_setting(root, resolver);
    root.finish();
    if (!copy.errors().empty()) {
      errors.add(copy.errors());
      continue;
    }
    finish_run(run, resolver, root);
    warn(run, *resolver.model(run.setting.model).model, warnings);
    keys += fmt::format("{:016x}", run.key);
    experiment.runs.push_back(std::move(run));
  }
  find_baselines(document.root().at("baseline"), experiment.axes, experiment.runs);
  errors.add(document.errors());
  errors.throw_if_any();
  if (experiment.runs.empty()) {
    throw InputError(fmt::format("{}: sweep.when: no combination meets all conditions", path));
  }
  experiment.key = fnv1a64(keys);
  experiment.num_runs = static_cast<std::int64_t>(experiment.runs.size());
  experiment.warnings.assign(warnings.begin(), warnings.end());
  return experiment;
}

void take_shard(Experiment& experiment, const Shard& shard) {
  if (shard.count < 1 || static_cast<std::uint64_t>(shard.count) > kMaxRuns || shard.index < 0 ||
      shard.index >= shard.count) {
    throw InputError(
        fmt::format("--shard: expected I/N with 0 <= I < N <= {}, got {}/{}", kMaxRuns, shard.index, shard.count));
  }
  std::erase_if(experiment.runs, [&shard](const Run& run) { return run.index % shard.count != shard.index; });
  experiment.shard = shard;
}

Experiment load_experiment(const std::string& path, const Overrides& overrides) {
  const Document document = Document::load(path);
  return parse_experiment(document.text(), path, std::filesystem::path(path).parent_path().string(), overrides);
}

}  // namespace kvtide::experiment
