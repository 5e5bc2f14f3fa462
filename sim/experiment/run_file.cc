#include "experiment/run_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "experiment/columns.h"
#include "experiment/result_arrays.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

using hdf5::InputFile;
using hdf5::OutputFile;

/// Layout of these files; another number means "not ours to resume".
constexpr std::int64_t kFormat = 3;
constexpr const char* kComplete = "complete";

RunResult read_result(const InputFile& file) {
  RunResult result;
  result.status =
      file.string_attribute("/", "run_status") == to_string(RunStatus::ok) ? RunStatus::ok : RunStatus::failed;
  result.status_reason = file.string_attribute("/", "run_status_reason");
  result.warnings = split_lines(file.string_attribute("/", "run_warnings"));
  result.loss_model = file.string_attribute("/", "loss_model");
  result.loss_tokens = file.integer_attribute("/", "loss_tokens");
  for (const Column& column : columns()) {
    const std::string name = fmt::format("column_{}", column.name);
    if (!file.has_attribute("/", name)) continue;
    if (column.type == ColumnType::number) {
      result.numbers[column.name] = file.number_attribute("/", name);
    } else {
      result.texts[column.name] = file.string_attribute("/", name);
    }
  }
  read_arrays(file, "", result);
  return result;
}

}  // namespace

void write_run_file(const std::string& path, std::uint64_t run_key, const std::string& build, const RunResult& result) {
  const std::scoped_lock lock(hdf5::library_mutex());
  OutputFile file(path);
  write_arrays(file, "", result);
  for (const auto& [name, value] : result.numbers) file.attribute("/", fmt::format("column_{}", name), value);
  for (const auto& [name, value] : result.texts) file.attribute("/", fmt::format("column_{}", name), value);
  file.attribute("/", "run_status", to_string(result.status));
  file.attribute("/", "run_status_reason", result.status_reason);
  file.attribute("/", "run_warnings", fmt::format("{}", fmt::join(result.warnings, "\n")));
  file.attribute("/", "loss_model", result.loss_model);
  file.attribute("/", "loss_tokens", result.loss_tokens);
  file.attribute("/", "run_format", kFormat);
  file.attribute("/", "run_key", fmt::format("{:016x}", run_key));
  file.attribute("/", "kvtide_build", build);
  file.attribute("/", "status", std::string(kComplete));  // written last
  file.commit();
}

bool stop_the_library(std::span<const std::string> paths) {
  const auto try_all = [&] {
    for (const std::string& path : paths) {
      try {
        const InputFile file(path);
        for (const char* name : {"status", "run_key", "kvtide_build"}) (void)file.string_attribute("/", name);
        (void)read_result(file);
      } catch (const Error&) {
        // Damaged, and the library says so.
      }
    }
  };
  constexpr std::size_t kFilesPerSecond = 20;  // slow disks read a few hundred
  return !hdf5::failed_trial(try_all, std::chrono::seconds(20 + paths.size() / kFilesPerSecond)).empty();
}

void remove_fatal_run_files(const std::vector<std::string>& paths) {
  if (paths.empty() || !stop_the_library(paths)) return;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (stop_the_library({&path, 1})) std::filesystem::remove(path, ignored);
  }
}

std::optional<RunResult> read_run_file(const std::string& path, std::uint64_t run_key, const std::string& build) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const std::scoped_lock lock(hdf5::library_mutex());
    const InputFile file(path);
    if (file.string_attribute("/", "status") != kComplete || file.integer_attribute("/", "run_format") != kFormat ||
        file.string_attribute("/", "run_key") != fmt::format("{:016x}", run_key) ||
        file.string_attribute("/", "kvtide_build") != build) {
      return std::nullopt;
    }
    RunResult result = read_result(file);
    return defects(result).empty() ? std::optional(std::move(result)) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // damaged: computed again
  }
}

}  // namespace kvtide::experiment
