#include "hdf5/child_trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::hdf5 {
namespace {

[[noreturn]] void run_and_exit(const std::function<void()>& trial, std::chrono::seconds limit, pid_t parent) {
#ifdef __linux__
  // A hanging trial must not outlive a caller that somebody kills; elsewhere its time limit ends it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(0);
  // The mutex is held by the parent's thread id, which is not this one's; nobody else lives here.
  std::construct_at(&library_mutex());
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM}) ::signal(signal, SIG_DFL);
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) {
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
  }
  ::alarm(static_cast<unsigned>(limit.count()));
  try {
    trial();
  } catch (...) {
    // The caller's own attempt will throw it again.
  }
  ::_exit(0);
}

std::atomic<bool> is_in_place{false};

}  // namespace

void try_in_place() {
  is_in_place = true;
}

std::string failed_trial(const std::function<void()>& trial, std::chrono::seconds limit) {
  if (is_in_place) {
    try {
      trial();
    } catch (const Error&) {
      // The caller's own attempt will throw it again.
    }
    return {};
  }
  const pid_t parent = ::getpid();
  pid_t child = -1;
  {
    // While it is held no other thread is inside HDF5, so the child inherits the library in a sound state.
    const std::lock_guard lock(library_mutex());
    child = ::fork();
    if (child == 0) run_and_exit(trial, limit, parent);
  }
  if (child < 0) return {};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return {};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return fmt::format("no end within {} s", limit.count());
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

std::chrono::seconds trial_limit(const std::string& path) {
  std::error_code unknown;
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
  return std::chrono::seconds(20 + (unknown ? 0 : bytes >> 22U));
}

void require_trial(const std::string& path, const std::function<void()>& trial) {
  if (const std::string fate = failed_trial(trial, trial_limit(path)); !fate.empty())
    throw InputError(fmt::format("{}: damaged: reading it stops the HDF5 library itself ({})", path, fate));
}

}  // namespace kvtide::hdf5
