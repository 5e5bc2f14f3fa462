#include "experiment/result_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

using hdf5::InputFile;
using hdf5::OutputFile;

/// The group itself as an object: "" is the root.
std::string object_of(const std::string& group) {
  return group.empty() ? "/" : group;
}

std::string path_in(const std::string& group, const std::string& path) {
  return fmt::format("{}/{}", group, path);
}

ResultDimension read_dimension(const InputFile& file, const std::string& group, const std::string& path) {
  const std::string object = path_in(group, path);
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

/// @param entry  "loss/mass_loss(loss/position)"
ResultArray read_array(const InputFile& file, const std::string& group, const std::string& entry) {
  const std::size_t open = entry.find('(');
  if (open == std::string::npos || entry.back() != ')') {
    throw InputError(fmt::format("{}: {}: array_paths: expected path(dimensions), got \"{}\"", file.path(),
                                 object_of(group), entry.substr(0, 80)));
  }
  ResultArray array;
  array.path = entry.substr(0, open);
  std::istringstream names(entry.substr(open + 1, entry.size() - open - 2));
  for (std::string name; std::getline(names, name, ',');) array.dimensions.push_back(name);
  const std::string object = path_in(group, array.path);
  array.long_name = file.string_attribute(object, "long_name");
  array.units = file.string_attribute(object, "units");
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

std::size_t size_of(const auto& values) {
  return std::visit([](const auto& each) { return each.size(); }, values);
}

/// An array has as many values as its dimensions say.
void check_size(const InputFile& file, const std::string& group, const ResultArray& array, const RunResult& result) {
  double expected = 1;
  for (const std::string& name : array.dimensions) {
    const auto dimension = std::ranges::find(result.dimensions, name, &ResultDimension::path);
    if (dimension == result.dimensions.end()) {
      throw InputError(
          fmt::format("{}: {}: no dimension {} in this run", file.path(), path_in(group, array.path), name));
    }
    expected *= static_cast<double>(size_of(dimension->values));
  }
  if (static_cast<double>(size_of(array.values)) != expected) {
    throw InputError(fmt::format("{}: {}: {} values for dimensions of {:.0f}", file.path(), path_in(group, array.path),
                                 size_of(array.values), expected));
  }
}

}  // namespace

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void write_arrays(OutputFile& file, const std::string& group, const RunResult& result) {
  std::vector<std::string> dimension_paths, array_paths;
  for (const ResultDimension& dimension : result.dimensions) {
    std::visit(
        [&](const auto& values) {
          file.dimension(path_in(group, dimension.path), values, {dimension.long_name, dimension.units});
        },
        dimension.values);
    dimension_paths.push_back(dimension.path);
  }
  for (const ResultArray& array : result.arrays) {
    std::vector<std::string> dimensions;
    for (const std::string& dimension : array.dimensions) dimensions.push_back(path_in(group, dimension));
    std::visit(
        [&](const auto& values) {
          file.write(path_in(group, array.path), std::span(values), dimensions, {array.long_name, array.units});
        },
        array.values);
    array_paths.push_back(fmt::format("{}({})", array.path, fmt::join(array.dimensions, ",")));
  }
  file.attribute(object_of(group), "dimension_paths", fmt::format("{}", fmt::join(dimension_paths, "\n")));
  file.attribute(object_of(group), "array_paths", fmt::format("{}", fmt::join(array_paths, "\n")));
}

void read_arrays(const InputFile& file, const std::string& group, RunResult& result) {
  for (const std::string& path : split_lines(file.string_attribute(object_of(group), "dimension_paths"))) {
    result.dimensions.push_back(read_dimension(file, group, path));
  }
  for (const std::string& entry : split_lines(file.string_attribute(object_of(group), "array_paths"))) {
    result.arrays.push_back(read_array(file, group, entry));
    check_size(file, group, result.arrays.back(), result);
  }
}

}  // namespace kvtide::experiment
