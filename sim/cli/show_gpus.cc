#include "cli/show_gpus.h"

#include <fmt/format.h>

#include "base/json_object.h"
#include "base/units.h"
#include "cli/table.h"
#include "gpu/gpu_profile.h"

namespace kvtide::cli {
namespace {

/// What the table of all GPUs says, in base units.
JsonObject summary_of(const gpu::GpuProfile& profile) {
  return JsonObject()
      .text("name", profile.name)
      .raw("aliases", json_texts(profile.aliases))
      .number("memory_bytes", profile.reported_bytes)
      .text("memory_standard", profile.memory_standard)
      .number("bandwidth_bytes_per_s", profile.bandwidth)
      .number("num_sms", profile.num_sms)
      .number("l2_bytes", profile.l2_bytes);
}

std::string one_json(const gpu::GpuProfile& profile) {
  std::vector<std::string> facts;
  for (const gpu::ProfileFact& fact : profile.facts) {
    facts.push_back(JsonObject().text("key", fact.key).text("value", fact.value).text("source", fact.source).str());
  }
  return summary_of(profile).raw("facts", json_list(facts)).str();
}

void show_all(bool as_json) {
  std::vector<std::string> objects;
  Table table({{"gpu", Align::left},
               {"memory", Align::right},
               {"standard", Align::left},
               {"bandwidth", Align::right},
               {"SMs", Align::right},
               {"L2", Align::right}});
  for (const std::string& known : gpu::known_gpus()) {
    const gpu::GpuProfile profile = gpu::load_gpu_profile(known);
    objects.push_back(summary_of(profile).str());
    table.add_row({known, format_bytes(static_cast<double>(profile.reported_bytes)), profile.memory_standard,
                   fmt::format("{:.0f} GB/s", profile.bandwidth * 1e-9), fmt::format("{}", profile.num_sms),
                   format_bytes(static_cast<double>(profile.l2_bytes))});
  }
  if (as_json) {
    fmt::print("{}\n", JsonObject().raw("gpus", json_list(objects)).str());
  } else {
    fmt::print("{}", table.text());
  }
}

}  // namespace

void show_gpus(const std::string& name, bool as_json) {
  if (name.empty()) return show_all(as_json);
  const gpu::GpuProfile profile = gpu::load_gpu_profile(name);
  if (as_json) {
    fmt::print("{}\n", one_json(profile));
    return;
  }
  Table table({{"key", Align::left}, {"value", Align::left}, {"source", Align::left}});
  for (const gpu::ProfileFact& fact : profile.facts) table.add_row({fact.key, fact.value, fact.source});
  fmt::print("{}\n{}", profile.name, table.text());
}

}  // namespace kvtide::cli
