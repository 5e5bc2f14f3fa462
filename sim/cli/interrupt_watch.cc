#include "cli/interrupt_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>

#include "cli/command.h"

namespace kvtide::cli {
namespace {

constexpr long kLookEveryNanoseconds = 50'000'000;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<std::string()> last_words) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::jthread([signals, last_words = std::move(last_words)](const std::stop_token& stop) {
    const timespec pause{.tv_sec = 0, .tv_nsec = kLookEveryNanoseconds};
    while (!stop.stop_requested()) {
      if (sigtimedwait(&signals, nullptr, &pause) < 0) continue;
      fmt::print(stderr, "{}{}\n", ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", last_words());
      std::_Exit(kInterrupted);
    }
  });
}

InterruptWatch::~InterruptWatch() {
  thread_.request_stop();
  thread_.join();
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace kvtide::cli
