#pragma once
// The same work for many indices on a few threads.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace kvtide::planning {

/// Calls work(0..count-1) on `jobs` threads, the caller's among them; of what they throw, the exception of the lowest index is thrown
/// again once all have ended.
template <typename Work>
void in_parallel(std::size_t count, std::int64_t jobs, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(count);
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(jobs), count);
    for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace kvtide::planning
