// Nothing is allocated in the event loop. This file counts operator new for all of engine_test.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "engine/reference_models.h"

namespace {
std::atomic<std::int64_t> num_allocations{0};
}  // namespace

// Not inlined: g++ 12 would see free() where it expects operator delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace kvtide::engine::reference {
namespace {

template <typename Model>
std::int64_t allocations_of(const Model& model) {
  const std::int64_t before = num_allocations;
  (void)model();
  return num_allocations - before;
}

// Ten processes and their queue are made once, however many events they live through.
TEST(Allocation, TimeoutsAllocateForTheirProcessesOnly) {
  EXPECT_EQ(allocations_of([] { return run_timeouts(10, 20'000); }),
            allocations_of([] { return run_timeouts(10, 200); }));
  EXPECT_GT(allocations_of([] { return run_timeouts(20, 200); }), allocations_of([] { return run_timeouts(10, 200); }));
}

TEST(Allocation, CallbacksAllocateForTheirChainsOnly) {
  EXPECT_EQ(allocations_of([] { return run_callbacks(10, 20'000); }),
            allocations_of([] { return run_callbacks(10, 200); }));
}

// 64 customers at 4 servers, 10,000 or 1,000 rounds each: the queue has grown to what it needs in both.
TEST(Allocation, WaitingForAResourceAllocatesNothing) {
  EXPECT_EQ(allocations_of([] { return run_resource(64, 4, 10'000); }),
            allocations_of([] { return run_resource(64, 4, 1000); }));
}

}  // namespace
}  // namespace kvtide::engine::reference
