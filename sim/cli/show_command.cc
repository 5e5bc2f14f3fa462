#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/data_directory.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/show_machine.h"
#include "cli/show_models.h"
#include "cli/show_policies.h"
#include "cli/show_resonance.h"
#include "cli/table.h"
#include "experiment/experiment_schema.h"
#include "gpu/gpu_profile.h"
#include "kv/compression/scorer.h"

namespace kvtide::cli {
namespace {

void show_gpus(const std::string& name) {
  if (name.empty()) {
    Table table({{"gpu", Align::left},
                 {"memory", Align::right},
                 {"standard", Align::left},
                 {"bandwidth", Align::right},
                 {"SMs", Align::right},
                 {"L2", Align::right}});
    for (const std::string& known : gpu::known_gpus()) {
      const gpu::GpuProfile profile = gpu::load_gpu_profile(known);
      table.add_row({known, format_bytes(static_cast<double>(profile.reported_bytes)), profile.memory_standard,
                     fmt::format("{:.0f} GB/s", profile.bandwidth * 1e-9), fmt::format("{}", profile.num_sms),
                     format_bytes(static_cast<double>(profile.l2_bytes))});
    }
    fmt::print("{}", table.text());
    return;
  }
  const gpu::GpuProfile profile = gpu::load_gpu_profile(name);
  Table table({{"key", Align::left}, {"value", Align::left}, {"source", Align::left}});
  for (const gpu::ProfileFact& fact : profile.facts) table.add_row({fact.key, fact.value, fact.source});
  fmt::print("{}\n{}", profile.name, table.text());
}

void show_scorers(const std::string& name) {
  if (name.empty()) {
    Table table({{"scorer", Align::left}, {"what it scores", Align::left}, {"paper", Align::left}});
    for (const kv::ScorerEntry& entry : kv::scorers()) table.add_row({entry.name, entry.summary, entry.paper});
    fmt::print("{}", table.text());
    return;
  }
  const kv::ScorerEntry& entry = kv::find_scorer(name);
  fmt::print("{}: {}{}\n", entry.name, entry.summary, entry.paper.empty() ? "" : " (" + entry.paper + ")");
  if (entry.parameters.empty()) return;
  Table table({{"parameter", Align::left}, {"default", Align::right}, {"range", Align::left}, {"what", Align::left}});
  for (const kv::ScorerParameter& parameter : entry.parameters) {
    table.add_row({parameter.name, fmt::format("{}", parameter.fallback),
                   fmt::format("{}..{}", parameter.min, parameter.max), parameter.summary});
  }
  fmt::print("{}", table.text());
}

void show_experiments(const std::string& name) {
  if (!name.empty()) {
    std::ifstream file(find_data_file("experiments", name, {".yaml"}));
    fmt::print("{}", std::string(std::istreambuf_iterator<char>(file), {}));
    return;
  }
  for (const std::string& known : list_data_files("experiments", {".yaml"})) fmt::print("{}\n", known);
}

void show_schema(const std::string&) {
  fmt::print("{}", experiment::experiment_schema());
}

struct Topic {
  const char* name;
  void (*show)(const std::string& name);
};
constexpr Topic kTopics[] = {{"gpus", &show_gpus},
                             {"scorers", &show_scorers},
                             {"codecs", &show_codecs},
                             {"experiments", &show_experiments},
                             {"schema", &show_schema}};

int run(const Arguments& arguments) {
  std::vector<std::string> names{"models"};
  const std::string name = arguments.positional.size() > 1 ? arguments.positional[1] : "";
  if (arguments.positional[0] == "models") {
    show_models(name, arguments.has("json"));
    return kDone;
  }
  if (arguments.positional[0] == "machine") {
    show_machine(arguments);
    return kDone;
  }
  if (arguments.positional[0] == "resonance") {
    show_resonance(arguments.text("model").value_or(name), arguments.text("block-sizes").value_or(""),
                   arguments.has("json"));
    return kDone;
  }
  const std::string model = arguments.text("model").value_or("llama-3.1-8b");
  if (arguments.positional[0] == "presets") {
    show_presets(name, model, arguments.has("json"));
    return kDone;
  }
  if (arguments.positional[0] == "policies") {
    show_policies(name, model, arguments.has("markdown"), arguments.has("json"));
    return kDone;
  }
  names.insert(names.end(), {"machine", "resonance", "presets", "policies"});
  if (arguments.has("json")) {
    throw InputError("kvtide show: --json is available for models, machine, resonance, presets and policies");
  }
  for (const Topic& topic : kTopics) {
    if (arguments.positional[0] == topic.name) {
      topic.show(name);
      return kDone;
    }
    names.emplace_back(topic.name);
  }
  const std::string nearest = nearest_name(arguments.positional[0], names);
  throw InputError(
      fmt::format("kvtide show: expected models, gpus, machine, resonance, presets, policies, scorers, codecs, "
                  "experiments or schema, got "
                  "\"{}\"{}",
                  arguments.positional[0], nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

}  // namespace

Command show_command() {
  return {
      .name = "show",
      .positional = "models|gpus|machine|resonance|presets|policies|scorers|codecs|experiments|schema [NAME]",
      .min_positional = 1,
      .max_positional = 2,
      .summary = "what is built in; with a name, the whole record with its sources",
      .options = {{"json", "",
                   "one JSON document on stdout (schema is one anyway; not for gpus, scorers, codecs, experiments)"},
                  {"model", "NAME", "resonance, presets, policies: a name from models/ or a path"},
                  {"markdown", "", "policies: the table of docs/catalogue.md"},
                  {"block-sizes", "LIST", "resonance: 16,32,64,128,256 by default"},
                  {"gpu", "NAME", "machine: a name from hw_profiles/ or a path"},
                  {"pattern", "YAML", "machine: {chunk: 4 KiB, streams: 528, writes: 0, in_flight: 4 MiB}"},
                  {"fidelity", "TIER", "machine: sampled (default), roofline or detailed memory"}},
      .examples = {"kvtide show gpus h100-sxm", "kvtide show presets kivi-int2",
                   "kvtide show resonance --model llama-3.1-8b --block-sizes 64,96,128",
                   "kvtide show models path/to/config.json",
                   "kvtide show machine --gpu h100-sxm --pattern '{chunk: 4 KiB}'"},
      .run = &run};
}

}  // namespace kvtide::cli
