#include "cli/show_scorers.h"

#include <fmt/format.h>

#include "base/json_object.h"
#include "cli/table.h"
#include "kv/compression/scorer.h"

namespace kvtide::cli {
namespace {

std::string json_of(const kv::ScorerEntry& entry) {
  std::vector<std::string> parameters;
  for (const kv::ScorerParameter& parameter : entry.parameters) {
    parameters.push_back(JsonObject()
                             .text("name", parameter.name)
                             .number("default", parameter.fallback)
                             .number("min", parameter.min)
                             .number("max", parameter.max)
                             .flag("is_integer", parameter.is_integer)
                             .text("summary", parameter.summary)
                             .str());
  }
  return JsonObject()
      .text("name", entry.name)
      .text("summary", entry.summary)
      .text("paper", entry.paper)
      .raw("parameters", json_list(parameters))
      .str();
}

void show_all(bool as_json) {
  std::vector<std::string> objects;
  Table table({{"scorer", Align::left}, {"what it scores", Align::left}, {"paper", Align::left}});
  for (const kv::ScorerEntry& entry : kv::scorers()) {
    objects.push_back(json_of(entry));
    table.add_row({entry.name, entry.summary, entry.paper});
  }
  if (as_json) {
    fmt::print("{}\n", JsonObject().raw("scorers", json_list(objects)).str());
  } else {
    fmt::print("{}", table.text());
  }
}

}  // namespace

void show_scorers(const std::string& name, bool as_json) {
  if (name.empty()) return show_all(as_json);
  const kv::ScorerEntry& entry = kv::find_scorer(name);
  if (as_json) {
    fmt::print("{}\n", json_of(entry));
    return;
  }
  fmt::print("{}: {}{}\n", entry.name, entry.summary, entry.paper.empty() ? "" : " (" + entry.paper + ")");
  if (entry.parameters.empty()) return;
  Table table({{"parameter", Align::left}, {"default", Align::right}, {"range", Align::left}, {"what", Align::left}});
  for (const kv::ScorerParameter& parameter : entry.parameters) {
    table.add_row({parameter.name, fmt::format("{}", parameter.fallback),
                   fmt::format("{}..{}", parameter.min, parameter.max), parameter.summary});
  }
  fmt::print("{}", table.text());
}

}  // namespace kvtide::cli
