#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/python_program.h"
#include "cli/table.h"
#include "cli/version.h"
#include "gpu/gpu_profile.h"
#include "model/model.h"

namespace kvtide::cli {
namespace {

/// Loads everything that ships. @return what is wrong, empty when nothing
std::string damaged_data() {
  try {
    for (const std::string& name : gpu::known_gpus()) (void)gpu::load_gpu_profile(name);
    for (const std::string& name : known_models()) (void)load_model(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Finding {
  std::string what;
  std::string found;
  std::string problem;  ///< empty: none
};

std::vector<Finding> look_around(bool as_json) {
  std::vector<Finding> findings;
  const auto add = [&](const std::string& what, const std::string& found, const std::string& problem) {
    findings.push_back({what, found, problem});
  };
  add("cores", fmt::format("{}", std::thread::hardware_concurrency()), "");
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  add("memory", format_bytes(memory), memory < 2e9 ? "a build needs 2 GB" : "");
  std::string folder, problem;
  try {
    folder = data_directory();
  } catch (const Error& error) {
    problem = error.what();
  }
  add("data folder", folder, problem);
  if (problem.empty()) {
    add("GPUs, models", fmt::format("{}, {}", gpu::known_gpus().size(), known_models().size()), damaged_data());
    const int code =
        run_analysis(as_json ? std::vector<std::string>{"check", "--quiet"} : std::vector<std::string>{"check"});
    add("plots and report", code == 0 ? "kvtide_analysis" : "", code == 0 ? "" : "see the message above");
  }
  std::error_code failure;
  const std::filesystem::space_info space = std::filesystem::space(std::filesystem::current_path(failure), failure);
  add("free disk here", failure ? "" : format_bytes(static_cast<double>(space.available)),
      failure                    ? failure.message()
      : ::access(".", W_OK) == 0 ? ""
                                 : "this folder cannot be written");
  const char* cache = std::getenv("KVTIDE_MEMORY_CACHE");
  add("KVTIDE_MEMORY_CACHE", cache != nullptr ? cache : "(not set: memory signatures are simulated anew each time)",
      "");
  return findings;
}

int run(const Arguments& arguments) {
  const bool as_json = arguments.has("json");
  if (!as_json) fmt::print("{}", version_text());
  std::fflush(stdout);  // the Python program prints between
  Table table({{"what", Align::left}, {"found", Align::left}, {"", Align::left}});
  std::vector<std::string> objects;
  bool is_well = true;
  for (const Finding& finding : look_around(as_json)) {
    const bool is_ok = finding.problem.empty();
    is_well = is_well && is_ok;
    table.add_row({finding.what, finding.found, is_ok ? "ok" : finding.problem});
    JsonObject object;
    object.text("what", finding.what).text("found", finding.found).text("problem", finding.problem).flag("ok", is_ok);
    objects.push_back(object.str());
  }
  if (as_json) {
    fmt::print(
        "{}\n",
        JsonObject().flag("well", is_well).text("version", version_text()).raw("findings", json_list(objects)).str());
  } else {
    fmt::print("{}", table.text());
  }
  return is_well ? kDone : kEnvironment;
}

}  // namespace

Command doctor_command() {
  return {.name = "doctor",
          .positional = "",
          .min_positional = 0,
          .max_positional = 0,
          .summary = "is this installation well: versions, cores, memory, data, Python",
          .options = {{"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide doctor", "KVTIDE_PYTHON=python3 kvtide doctor"},
          .run = &run};
}

}  // namespace kvtide::cli
