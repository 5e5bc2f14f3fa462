#include "cli/python_program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::cli {

int run_analysis(const std::vector<std::string>& arguments) {
  const char* chosen = std::getenv("KVTIDE_PYTHON");
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "/usr/bin/python3";
  const char* path = std::getenv("PYTHONPATH");
  const std::string package = data_directory() + "/analysis";
  const std::string python_path = path != nullptr && *path != '\0' ? fmt::format("{}:{}", package, path) : package;
  ::setenv("PYTHONPATH", python_path.c_str(), 1);

  std::vector<std::string> words{python, "-m", "kvtide_analysis"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  std::fflush(nullptr);  // what this process printed comes before what the child prints
  pid_t child = 0;
  if (const int error = ::posix_spawn(&child, python.c_str(), nullptr, nullptr, raw.data(), environ); error != 0) {
    throw EnvironmentError(
        fmt::format("could not start {}: {} (set KVTIDE_PYTHON to a Python 3 with h5py, xarray and plotly)", python,
                    std::strerror(error)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace kvtide::cli
