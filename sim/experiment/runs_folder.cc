#include "experiment/runs_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/whole_file.h"

namespace kvtide::experiment {
namespace fs = std::filesystem;
namespace {

constexpr const char* kKeyFile = "experiment.key";
constexpr const char* kLockFile = "lock";

/// "00012.h5" or a leftover "00012.h5.partial-<pid>" (or of the key) of a killed process.
bool is_run_file(const std::string& name) {
  if (name.starts_with(std::string(kKeyFile) + ".partial-")) return true;
  const std::size_t dot = name.find(".h5");
  if (dot == std::string::npos || dot < 5) return false;
  const bool is_numbered = std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dot),
                                       [](char c) { return c >= '0' && c <= '9'; });
  return is_numbered && (name.size() == dot + 3 || name.compare(dot, 12, ".h5.partial-") == 0);
}

void remove_run_files(const std::string& path, bool only_partial) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(path, failure)) {
    const std::string name = entry.path().filename().string();
    if (is_run_file(name) && (!only_partial || !name.ends_with(".h5"))) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
  if (failure) throw EnvironmentError(fmt::format("{}: cannot be listed: {}", path, failure.message()));
}

/// What killed processes left of the final file: whoever holds the folder's lock is the only one that writes it.
void remove_partial_outputs(const std::string& output) {
  const fs::path path(output);
  const std::string prefix = path.filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_partial = name.size() > prefix.size() && name.starts_with(prefix) &&
                            name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    if (is_partial) fs::remove(entry.path(), ignored);
  }
}

/// The folder's line; empty where a killed process left none, or another program a strange one.
std::string found_key(const std::string& path) {
  try {
    const std::string text = read_whole_file(path, 4096, "a key");
    return text.substr(0, text.find('\n'));
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

RunsFolder::RunsFolder(const std::string& output, const Experiment& experiment, bool resume) : path_(output + ".runs") {
  const std::string key_path = fmt::format("{}/{}", path_, kKeyFile);
  const std::string key = fmt::format(
      "{:016x} {} runs{}\n", experiment.key, experiment.runs.size(),
      experiment.shard ? fmt::format(" shard {}/{}", experiment.shard->index, experiment.shard->count) : "");
  std::error_code failure;
  const bool existed = fs::is_directory(path_, failure);
  fs::create_directories(path_, failure);
  if (failure) throw EnvironmentError(fmt::format("{}: cannot be created: {}", path_, failure.message()));
  lock_.acquire(path_);
  remove_partial_outputs(output);
  if (existed) {
    const std::string found = found_key(key_path);
    if (resume && !found.empty() && found + "\n" != key) {
      throw InputError(
          fmt::format("{}: holds runs of another configuration ({}, now {} runs with key {:016x}); give another "
                      "--output, or leave --resume out to start anew",
                      path_, found, experiment.runs.size(), experiment.key));
    }
    remove_run_files(path_, resume && !found.empty());
  }
  write_whole_file(key_path, key);
}

RunsFolder::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunsFolder::Lock::acquire(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kLockFile);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw EnvironmentError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  // Where the file system has no locks (some network mounts), two writers at once are the user's to avoid.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw EnvironmentError(
        fmt::format("{}: another kvtide is writing there; wait for it or give another --output", folder));
  }
}

void RunsFolder::remove() const {
  remove_run_files(path_, false);
  std::error_code ignored;
  fs::remove(fs::path(path_) / kKeyFile, ignored);
  fs::remove(fs::path(path_) / kLockFile, ignored);
  fs::remove(path_, ignored);  // fails, as it should, when somebody put something else there
}

}  // namespace kvtide::experiment
