#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/data_directory.h"
#include "base/error.h"
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

int run(const Arguments& /*arguments*/) {
  fmt::print("{}", version_text());
  std::fflush(stdout);  // the Python program prints between
  Table table({{"what", Align::left}, {"found", Align::left}, {"", Align::left}});
  bool is_well = true;
  const auto add = [&](const std::string& what, const std::string& found, const std::string& problem) {
    table.add_row({what, found, problem.empty() ? "ok" : problem});
    is_well = is_well && problem.empty();
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
    const int code = run_analysis({"check"});
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
  fmt::print("{}", table.text());
  return is_well ? kDone : kEnvironment;
}

}  // namespace

Command doctor_command() {
  return {.name = "doctor",
          .positional = "",
          .min_positional = 0,
          .max_positional = 0,
          .summary = "is this installation well: versions, cores, memory, data, Python",
          .options = {},
          .examples = {"kvtide doctor", "KVTIDE_PYTHON=python3 kvtide doctor"},
          .run = &run};
}

}  // namespace kvtide::cli
