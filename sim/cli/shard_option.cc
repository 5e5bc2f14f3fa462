#include "cli/shard_option.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace kvtide::cli {
namespace {

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

/// @throws InputError when the variable is set and no integer
std::optional<std::int64_t> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value) throw InputError(fmt::format("{}: expected an integer, got \"{}\"", name, text));
  return value;
}

std::optional<experiment::Shard> shard_of_environment() {
  if (const auto task = variable("SLURM_ARRAY_TASK_ID")) {
    if (const auto count = variable("SLURM_ARRAY_TASK_COUNT")) {
      return experiment::Shard{*task - variable("SLURM_ARRAY_TASK_MIN").value_or(0), *count};
    }
  }
  if (const auto index = variable("JOB_COMPLETION_INDEX")) {
    if (const auto count = variable("KVTIDE_SHARDS")) return experiment::Shard{*index, *count};
  }
  return std::nullopt;
}

}  // namespace

std::optional<experiment::Shard> shard_option(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.text("shard");
  if (!text || *text == "auto") {
    const std::optional<experiment::Shard> shard = shard_of_environment();
    if (text && !shard) {
      throw InputError(
          "--shard auto: neither SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT nor JOB_COMPLETION_INDEX and "
          "KVTIDE_SHARDS are set");
    }
    return shard;
  }
  const std::size_t slash = text->find('/');
  const auto index = parse_integer(text->substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : parse_integer(text->substr(slash + 1));
  if (!index || !count) throw InputError(fmt::format("--shard: expected I/N or auto, got \"{}\"", *text));
  return experiment::Shard{*index, *count};
}

std::string shard_path(const std::string& path, const experiment::Shard& shard) {
  const std::filesystem::path file(path);
  const std::size_t digits = fmt::format("{}", shard.count - 1).size();
  const std::string name = fmt::format("{}.shard-{:0{}}-of-{}{}", file.stem().string(), shard.index, digits,
                                       shard.count, file.extension().string());
  return (file.parent_path() / name).string();
}

}  // namespace kvtide::cli
