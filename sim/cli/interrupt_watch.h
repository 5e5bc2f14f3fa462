#pragma once
// What a job says that is ended while it computes.

#include <functional>
#include <string>
#include <thread>

namespace kvtide::cli {

/// While it lives, SIGINT and SIGTERM end the process at once with exit code 130, after `last_words` on stderr. For jobs that keep what is
/// finished as they go: nothing is left to write. Made before any other thread: those inherit that the signals wait.
class InterruptWatch {
 public:
  /// @param last_words  asked on a thread of its own
  explicit InterruptWatch(std::function<std::string()> last_words);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace kvtide::cli
