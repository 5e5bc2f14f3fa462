#include "cli/analysis_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::cli {

AnalysisStream::AnalysisStream(const std::string& python, const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentError(fmt::format("could not make a pipe: {}", std::strerror(errno)));
  }
  const char* path = std::getenv("PYTHONPATH");
  const std::string package = data_directory() + "/analysis";
  ::setenv("PYTHONPATH", (path != nullptr && *path != '\0' ? package + ":" + path : package).c_str(), 1);
  std::vector<std::string> words{python, "-m", "kvtide_analysis"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int error = ::posix_spawnp(&child_, python.c_str(), &actions, nullptr, raw.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output_ = ends[0];
  if (error != 0) {
    ::close(output_);
    child_ = -1;
    throw EnvironmentError(fmt::format("could not start {}: {}", python, std::strerror(error)));
  }
}

AnalysisStream::~AnalysisStream() {
  if (child_ > 0) {
    ::kill(child_, SIGTERM);
    static_cast<void>(finish());
  }
  if (output_ >= 0) ::close(output_);
}

bool AnalysisStream::next_line(std::string& line) {
  std::array<char, 4096> buffer{};
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return true;
    }
    const ssize_t count = ::read(output_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

int AnalysisStream::finish() {
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace kvtide::cli
