#include "experiment/kept_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 30;
constexpr std::size_t kMostMethods = 1024;

/// Root attribute or dataset `name` of a list of numbers.
std::vector<double> root_numbers(const hdf5::InputFile& file, const std::string& name) {
  if (file.exists("/" + name)) return file.read_doubles("/" + name);
  return file.numbers_attribute("/", name);
}

class Reader {
 public:
  Reader(const hdf5::InputFile& file, KeptFile& result) : file_(file), result_(result) {}

  KeptMethod read(const std::string& name) {
    KeptMethod method;
    method.name = name;
    const std::string group = "/" + name;
    if (file_.has_attribute(group, "params")) method.parameters = file_.string_attribute(group, "params");
    if (file_.has_attribute(group, "scores_depend_on_ratio")) {
      method.scores_depend_on_ratio = file_.flag_attribute(group, "scores_depend_on_ratio");
    }
    if (file_.exists(group + "/kept")) method.kept = read_choices(group + "/kept", result_.num_tokens);
    if (file_.exists(group + "/kept_channels")) {
      method.kept_channels = read_choices(group + "/kept_channels", result_.num_channels);
    }
    if (file_.exists(group + "/scores")) method.scores = read_scores(group + "/scores");
    return method;
  }

 private:
  /// [layer, ratio, kv_head, width]; a width of 0 becomes that of the first dataset.
  std::vector<std::uint8_t> read_choices(const std::string& path, std::int64_t& width) {
    const hdf5::DatasetInfo info = file_.info(path);
    const bool fits = info.shape.size() == 4 && info.shape[0] == result_.layers.size() &&
                      info.shape[1] == result_.removed_ratios.size() && agrees(result_.num_kv_heads, info.shape[2]) &&
                      agrees(width, info.shape[3]);
    require(fits && info.num_elements() <= kMostElements, path, info,
            fmt::format("[{}, {}, kv_head, {}]", result_.layers.size(), result_.removed_ratios.size(),
                        width > 0 ? fmt::format("{}", width) : std::string("token")));
    std::vector<std::uint8_t> values;
    for (const std::int64_t value : file_.read_integers(path)) {
      if (value != 0 && value != 1) {
        throw InputError(fmt::format("{}: {}: expected 0 or 1, got {}", file_.path(), path, value));
      }
      values.push_back(static_cast<std::uint8_t>(value));
    }
    return values;
  }

  std::vector<float> read_scores(const std::string& path) {
    const hdf5::DatasetInfo info = file_.info(path);
    const bool fits = info.shape.size() == 3 && info.shape[0] == result_.layers.size() &&
                      agrees(result_.num_kv_heads, info.shape[1]) && agrees(result_.num_tokens, info.shape[2]);
    require(fits && info.num_elements() <= kMostElements, path, info,
            fmt::format("[{}, kv_head, token]", result_.layers.size()));
    std::vector<float> values = file_.read_floats(path);
    if (std::ranges::any_of(values, [](float value) { return std::isnan(value); })) {
      throw InputError(fmt::format("{}: {}: a score is not a number", file_.path(), path));
    }
    return values;
  }

  static bool agrees(std::int64_t& known, std::uint64_t found) {
    if (found == 0 || found > (std::uint64_t{1} << 24)) return false;
    if (known == 0) known = static_cast<std::int64_t>(found);
    return static_cast<std::uint64_t>(known) == found;
  }

  void require(bool fits, const std::string& path, const hdf5::DatasetInfo& info, const std::string& expected) const {
    if (!fits) {
      throw InputError(fmt::format("{}: {}: expected the shape {}, got [{}]", file_.path(), path, expected,
                                   fmt::join(info.shape, ", ")));
    }
  }

  const hdf5::InputFile& file_;
  KeptFile& result_;
};

KeptFile read_whole(const std::string& path, const std::string& only_method) {
  const hdf5::InputFile file(path);
  KeptFile result;
  result.path = path;
  for (const double layer : root_numbers(file, "layers")) result.layers.push_back(std::llround(layer));
  result.removed_ratios = root_numbers(file, "ratios");
  if (result.layers.empty() || result.removed_ratios.empty()) {
    throw InputError(fmt::format("{}: the root attributes layers and ratios must not be empty", path));
  }
  for (const double ratio : result.removed_ratios) {
    if (!(ratio >= 0 && ratio < 1)) {
      throw InputError(fmt::format("{}: ratios: expected shares removed in [0, 1), got {}", path, ratio));
    }
  }
  std::vector<std::string> names;
  for (const std::string& name : file.children("/")) {
    if (file.is_group("/" + name)) names.push_back(name);
  }
  if (names.size() > kMostMethods) {
    throw InputError(fmt::format("{}: expected at most {} methods, got {}", path, kMostMethods, names.size()));
  }
  if (!only_method.empty() && std::ranges::find(names, only_method) == names.end()) {
    throw InputError(fmt::format("{}: no method \"{}\" (it holds {})", path, only_method, fmt::join(names, ", ")));
  }
  Reader reader(file, result);
  for (const std::string& name : names) {
    if (only_method.empty() || name == only_method) result.methods.push_back(reader.read(name));
  }
  return result;
}

}  // namespace

KeptFile read_kept_file(const std::string& path, const std::string& only_method) {
  hdf5::require_trial(path, [&] { (void)read_whole(path, only_method); });
  return read_whole(path, only_method);
}

}  // namespace kvtide::experiment
