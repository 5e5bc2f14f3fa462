#include "base/data_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/lower_case.h"

namespace kvtide {
namespace fs = std::filesystem;
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t a_index = 1; a_index <= a.size(); ++a_index) {
    std::size_t diagonal = row[0];
    row[0] = a_index;
    for (std::size_t b_index = 1; b_index <= b.size(); ++b_index) {
      const std::size_t substituted = diagonal + (a[a_index - 1] == b[b_index - 1] ? 0 : 1);
      diagonal = row[b_index];
      row[b_index] = std::min({row[b_index] + 1, row[b_index - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 2, 1) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string data_directory() {
  std::vector<fs::path> candidates;
  if (const char* chosen = std::getenv("KVTIDE_DATA_DIR"); chosen != nullptr && *chosen != '\0') {
    candidates.emplace_back(chosen);
  } else {
    // An installed program prefers what was installed with it, also where the source tree is still there.
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    if (!program.empty()) candidates.push_back(program.parent_path().parent_path() / "share" / "kvtide");
    candidates.emplace_back(KVTIDE_BUILT_FROM);
  }
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (fs::is_directory(candidate / "models", ignored) && fs::is_directory(candidate / "hw_profiles", ignored))
      return candidate.string();
  }
  throw EnvironmentError(fmt::format("no folder with models/ and hw_profiles/ found; tried {}",
                                     fmt::join(std::vector<std::string>(candidates.begin(), candidates.end()), ", ")));
}

std::vector<std::string> list_data_files(const std::string& folder, const std::vector<std::string>& extensions) {
  std::vector<std::string> names;
  const fs::path place = fs::path(data_directory()) / folder;
  std::error_code failure;
  const fs::directory_iterator entries(place, failure);
  if (failure) throw EnvironmentError(fmt::format("{}: {}", place.string(), failure.message()));
  for (const auto& entry : entries) {
    if (std::ranges::find(extensions, entry.path().extension().string()) != extensions.end()) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string find_data_file(const std::string& folder, const std::string& name_or_path,
                           const std::vector<std::string>& extensions) {
  // A name that no file system takes (too long, a file as its folder) is not a file; nothing is thrown for it.
  std::error_code ignored;
  if (fs::is_regular_file(name_or_path, ignored)) return name_or_path;
  const std::string name = lower_case(name_or_path);
  if (name.find('/') == std::string::npos) {
    for (const std::string& extension : extensions) {
      const fs::path shipped = fs::path(data_directory()) / folder / (name + extension);
      if (fs::is_regular_file(shipped, ignored)) return shipped.string();
    }
  }
  const std::vector<std::string> known = list_data_files(folder, extensions);
  const std::string nearest = nearest_name(name, known);
  throw InputError(fmt::format("\"{}\" is neither a file nor a name in {}/{} (known: {})", name_or_path, folder,
                               nearest.empty() ? "" : "; did you mean " + nearest + "?", fmt::join(known, ", ")));
}

}  // namespace kvtide
