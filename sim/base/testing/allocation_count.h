#pragma once
// Allocations of a program that links allocation_count_bench.cc (kvtide-bench): operator new, and malloc as Eigen calls it.

#include <benchmark/benchmark.h>

#include <cstdint>

namespace kvtide {

/// Since the program began, all threads together.
[[nodiscard]] std::uint64_t num_allocations();

/// Counts from its making to report(). Example: 5 iterations over 100 events that allocate 1,000 times: 2 an event.
class AllocationCount {
 public:
  /// Sets the counter `allocations` to those for each item. @param num_items  of all iterations together
  void report(benchmark::State& state, std::int64_t num_items) const {
    state.counters["allocations"] =
        static_cast<double>(num_allocations() - begin_) / static_cast<double>(num_items > 0 ? num_items : 1);
  }

 private:
  std::uint64_t begin_ = num_allocations();
};

}  // namespace kvtide
