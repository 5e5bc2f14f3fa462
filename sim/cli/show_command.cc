#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/show_gpus.h"
#include "cli/show_machine.h"
#include "cli/show_models.h"
#include "cli/show_policies.h"
#include "cli/show_resonance.h"
#include "cli/show_scorers.h"
#include "experiment/experiment_schema.h"

namespace kvtide::cli {
namespace {

constexpr std::size_t kMaxExperimentBytes = std::size_t{4} << 20;

std::string name_of(const Arguments& arguments) {
  return arguments.positional.size() > 1 ? arguments.positional[1] : "";
}

std::string model_of(const Arguments& arguments) {
  return arguments.text("model").value_or("llama-3.1-8b");
}

void show_experiments(const std::string& name, bool as_json) {
  if (!name.empty()) {
    const std::string yaml =
        read_whole_file(find_data_file("experiments", name, {".yaml"}), kMaxExperimentBytes, "an experiment");
    fmt::print("{}", as_json ? JsonObject().text("name", name).text("yaml", yaml).str() + "\n" : yaml);
    return;
  }
  const std::vector<std::string> names = list_data_files("experiments", {".yaml"});
  if (as_json) {
    fmt::print("{}\n", JsonObject().raw("experiments", json_texts(names)).str());
    return;
  }
  for (const std::string& known : names) fmt::print("{}\n", known);
}

void show_schema(const std::string& name) {
  if (!name.empty() && name != "experiment") {
    throw InputError(fmt::format("kvtide show schema: expected no name, or experiment, got \"{}\"", name));
  }
  fmt::print("{}", experiment::experiment_schema());
}

struct Topic {
  const char* name;
  void (*show)(const Arguments& arguments, bool as_json);
};
constexpr Topic kTopics[] = {
    {"models", [](const Arguments& given, bool as_json) { show_models(name_of(given), as_json); }},
    {"gpus", [](const Arguments& given, bool as_json) { show_gpus(name_of(given), as_json); }},
    {"machine", [](const Arguments& given, bool /*as_json*/) { show_machine(given); }},
    {"resonance",
     [](const Arguments& given, bool as_json) {
       show_resonance(given.text("model").value_or(name_of(given)), given.text("block-sizes").value_or(""), as_json);
     }},
    {"presets", [](const Arguments& given, bool as_json) { show_presets(name_of(given), model_of(given), as_json); }},
    {"policies", [](const Arguments& given,
                    bool as_json) { show_policies(name_of(given), model_of(given), given.has("markdown"), as_json); }},
    {"scorers", [](const Arguments& given, bool as_json) { show_scorers(name_of(given), as_json); }},
    {"codecs", [](const Arguments& given, bool as_json) { show_codecs(name_of(given), as_json); }},
    {"experiments", [](const Arguments& given, bool as_json) { show_experiments(name_of(given), as_json); }},
    {"schema", [](const Arguments& given, bool /*as_json*/) { show_schema(name_of(given)); }}};

int run(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) {
    if (arguments.positional[0] == topic.name) {
      topic.show(arguments, arguments.has("json"));
      return kDone;
    }
    names.emplace_back(topic.name);
  }
  const std::string nearest = nearest_name(arguments.positional[0], names);
  throw InputError(fmt::format("kvtide show: expected one of {}, got \"{}\"{}", fmt::join(names, ", "),
                               arguments.positional[0], nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

}  // namespace

Command show_command() {
  return {.name = "show",
          .positional = "models|gpus|machine|resonance|presets|policies|scorers|codecs|experiments|schema [NAME]",
          .min_positional = 1,
          .max_positional = 2,
          .summary = "what is built in; with a name, the whole record with its sources",
          .options = {{"json", "", "one JSON document on stdout (schema is one anyway)"},
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
