// Counts allocations. Linked with --wrap=malloc (sim/CMakeLists.txt), so that malloc in headers counts too; libraries' own
// does not.

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/freed_memory.h"
#include "base/testing/allocation_count.h"

namespace {

std::atomic<std::uint64_t> count{0};

/// As kvtide itself does.
[[maybe_unused]] const bool kKeepsFreedMemory = [] {
  kvtide::keep_freed_memory();
  return true;
}();

}  // namespace

extern "C" {
void* __real_malloc(std::size_t size);  // NOLINT: the linker's names
void* __wrap_malloc(std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __real_malloc(size);
}
}

void* operator new(std::size_t size) {
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace kvtide {

std::uint64_t num_allocations() {
  return count.load(std::memory_order_relaxed);
}

}  // namespace kvtide
