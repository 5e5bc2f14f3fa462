#include "experiment/run_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "experiment/columns.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

using hdf5::InputFile;
using hdf5::OutputFile;

/// Layout of these files; another number means "not ours to resume".
constexpr std::int64_t kFormat = 1;
constexpr const char* kComplete = "complete";

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

hdf5::Description description_of(const auto& item) {
  return {item.long_name, item.units};
}

ResultArray read_array(const InputFile& file, const std::string& path) {
  const std::string object = "/" + path;
  ResultArray array;
  array.path = path;
  array.long_name = file.string_attribute(object, "long_name");
  array.units = file.string_attribute(object, "units");
  array.dimensions = split_lines(file.string_attribute(object, "run_dimensions"));
  switch (file.info(object).type) {
    case hdf5::ElementType::float64:
      array.values = file.read_doubles(object);
      break;
    case hdf5::ElementType::float32:
      array.values = file.read_floats(object);
      break;
    case hdf5::ElementType::int64:
      array.values = file.read_integers(object);
      break;
    case hdf5::ElementType::uint8: {
      const std::vector<std::int64_t> wide = file.read_integers(object);
      array.values = std::vector<std::uint8_t>(wide.begin(), wide.end());
      break;
    }
    case hdf5::ElementType::float16:
    case hdf5::ElementType::bfloat16_bits:
    case hdf5::ElementType::int32:
    case hdf5::ElementType::uint16:
    case hdf5::ElementType::string:
    case hdf5::ElementType::other:
      throw InputError(fmt::format("{}: {}: not a type of results", file.path(), object));
  }
  return array;
}

ResultDimension read_dimension(const InputFile& file, const std::string& path) {
  const std::string object = "/" + path;
  ResultDimension dimension;
  dimension.path = path;
  dimension.long_name = file.string_attribute(object, "long_name");
  dimension.units = file.string_attribute(object, "units");
  if (file.info(object).type == hdf5::ElementType::int64) {
    dimension.values = file.read_integers(object);
  } else {
    dimension.values = file.read_doubles(object);
  }
  return dimension;
}

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
  for (const std::string& path : split_lines(file.string_attribute("/", "run_dimension_paths"))) {
    result.dimensions.push_back(read_dimension(file, path));
  }
  for (const std::string& path : split_lines(file.string_attribute("/", "run_array_paths"))) {
    result.arrays.push_back(read_array(file, path));
  }
  return result;
}

}  // namespace

void write_run_file(const std::string& path, std::uint64_t run_key, const RunResult& result) {
  const std::scoped_lock lock(hdf5::library_mutex());
  OutputFile file(path);
  std::vector<std::string> dimension_paths;
  for (const ResultDimension& dimension : result.dimensions) {
    std::visit([&](const auto& values) { file.dimension("/" + dimension.path, values, description_of(dimension)); },
               dimension.values);
    dimension_paths.push_back(dimension.path);
  }
  std::vector<std::string> array_paths;
  for (const ResultArray& array : result.arrays) {
    std::vector<std::string> dimensions;
    for (const std::string& dimension : array.dimensions) dimensions.push_back("/" + dimension);
    std::visit(
        [&](const auto& values) { file.write("/" + array.path, std::span(values), dimensions, description_of(array)); },
        array.values);
    file.attribute("/" + array.path, "run_dimensions", fmt::format("{}", fmt::join(array.dimensions, "\n")));
    array_paths.push_back(array.path);
  }
  for (const auto& [name, value] : result.numbers) file.attribute("/", fmt::format("column_{}", name), value);
  for (const auto& [name, value] : result.texts) file.attribute("/", fmt::format("column_{}", name), value);
  file.attribute("/", "run_dimension_paths", fmt::format("{}", fmt::join(dimension_paths, "\n")));
  file.attribute("/", "run_array_paths", fmt::format("{}", fmt::join(array_paths, "\n")));
  file.attribute("/", "run_status", to_string(result.status));
  file.attribute("/", "run_status_reason", result.status_reason);
  file.attribute("/", "run_warnings", fmt::format("{}", fmt::join(result.warnings, "\n")));
  file.attribute("/", "loss_model", result.loss_model);
  file.attribute("/", "loss_tokens", result.loss_tokens);
  file.attribute("/", "run_format", kFormat);
  file.attribute("/", "run_key", fmt::format("{:016x}", run_key));
  file.attribute("/", "status", std::string(kComplete));  // written last
  file.commit();
}

std::optional<RunResult> read_run_file(const std::string& path, std::uint64_t run_key) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const std::scoped_lock lock(hdf5::library_mutex());
    const InputFile file(path);
    if (file.string_attribute("/", "status") != kComplete || file.integer_attribute("/", "run_format") != kFormat ||
        file.string_attribute("/", "run_key") != fmt::format("{:016x}", run_key)) {
      return std::nullopt;
    }
    RunResult result = read_result(file);
    return defects(result).empty() ? std::optional(std::move(result)) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // damaged: computed again
  }
}

}  // namespace kvtide::experiment
