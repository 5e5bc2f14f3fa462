#pragma once
// What a queue entry points at: either a process to resume or a callable to call, in one 64-byte line.
//
// Callables of at most 40 bytes lie in the record itself; larger ones are boxed. Records come from a pool that never
// moves or returns them, so a handle to a record of the past can always be told from the present one by its serial
// number.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvtide::engine {

class EventRecord {
 public:
  static constexpr std::size_t kInlineBytes = 40;

  /// Serial number of the pending event that owns this record; 0 while there is none (fired, cancelled or free).
  std::uint64_t serial = 0;

  /// Makes the record hold a callable. The record must be empty.
  template <class F>
  void hold(F&& callable) {
    using Callable = std::decay_t<F>;
    if constexpr (sizeof(Callable) <= kInlineBytes && alignof(Callable) <= alignof(void*)) {
      ::new (static_cast<void*>(storage_)) Callable(std::forward<F>(callable));
      act_ = [](EventRecord& record, Act act) {
        auto& held = *std::launder(reinterpret_cast<Callable*>(record.storage_));
        act == Act::call ? static_cast<void>(held()) : held.~Callable();
      };
    } else {
      auto box = std::make_unique<Callable>(std::forward<F>(callable));
      hold([box = std::move(box)] { (*box)(); });
    }
  }
  /// Makes the record hold the address of a suspended coroutine. The record must be empty.
  void hold_frame(void* frame) noexcept { ::new (static_cast<void*>(storage_)) void*(frame); }

  [[nodiscard]] bool holds_callable() const noexcept { return act_ != nullptr; }
  [[nodiscard]] void* frame() const noexcept { return *std::launder(reinterpret_cast<void* const*>(storage_)); }
  void call() { act_(*this, Act::call); }
  /// Destroys the callable, if any; the record is empty afterwards.
  void clear() {
    if (act_ != nullptr) std::exchange(act_, nullptr)(*this, Act::destroy);
  }

 private:
  enum class Act : std::uint8_t { call, destroy };
  void (*act_)(EventRecord&, Act) = nullptr;
  alignas(void*) std::byte storage_[kInlineBytes];
};

/// Records by the thousand, handed out again once returned. Keeps its peak size until destroyed.
class EventRecordPool {
 public:
  [[nodiscard]] EventRecord* take() {
    if (free_.empty()) grow();
    EventRecord* record = free_.back();
    free_.pop_back();
    return record;
  }
  /// @param record taken from this pool and empty
  void give_back(EventRecord* record) noexcept { free_.push_back(record); }

  /// Every record ever made, in order of making. @param visit called with EventRecord&
  template <class Visit>
  void for_each(Visit&& visit) {
    for (const auto& chunk : chunks_) {
      for (std::size_t i = 0; i < kChunk; ++i) visit(chunk[i]);
    }
  }

 private:
  static constexpr std::size_t kChunk = 1024;
  void grow();

  std::vector<std::unique_ptr<EventRecord[]>> chunks_;
  std::vector<EventRecord*> free_;  // capacity for every record made, so that give_back never allocates
};

}  // namespace kvtide::engine
