#pragma once
// The set of pending events, earliest first. Events of the future lie in a 4-ary heap; events of the present instant,
// which are about half of all in models with resources, go through one first-in-first-out ring per priority and never
// touch the heap.
//
// Why the rings keep the order (time, priority, serial): an event enters a ring only while its time is the present, so
// whatever lies in the heap for that same time was scheduled earlier and has a smaller serial; comparing the two fronts
// decides.
//
// Four children a node because the four 24-byte entries span two cache lines and the tree is half as deep as a binary
// one (LaMarca and Ladner, "The influence of caches on the performance of heaps", ACM JEA 1, 1996, section 4).

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/event_record.h"
#include "engine/priority.h"

namespace kvtide::engine {

/// One pending event. `order` is the priority in the top two bits above the serial number (62 bits: 146 years at 1e9 a
/// second).
struct QueueEntry {
  static constexpr int kSerialBits = 62;

  std::int64_t time = 0;  ///< ps, >= 0
  std::uint64_t order = 0;
  EventRecord* record = nullptr;

  [[nodiscard]] std::uint64_t serial() const noexcept { return order & ((std::uint64_t{1} << kSerialBits) - 1); }
  /// False once the event was cancelled: its record then carries another serial, or none.
  [[nodiscard]] bool is_live() const noexcept { return record->serial == serial(); }
  /// Strict order by (time, priority, serial), as one 128-bit comparison: no branch to mispredict.
  [[nodiscard]] bool precedes(const QueueEntry& other) const noexcept { return key() < other.key(); }

 private:
  [[nodiscard]] unsigned __int128 key() const noexcept {
    return (static_cast<unsigned __int128>(static_cast<std::uint64_t>(time)) << 64) | order;
  }
};

class EventQueue {
 public:
  /// The present, in ps. An event pushed for this time goes to a ring.
  [[nodiscard]] std::int64_t now() const noexcept { return now_; }
  /// Moves the present forward. No event before `time` may be pending.
  void advance_to(std::int64_t time) noexcept { now_ = time; }

  /// @param entry time >= now(), order greater than that of every entry of the same priority pushed before
  void push(const QueueEntry& entry) {
    if (entry.time == now_) {
      push_ready(entry);
    } else if (has_hole_) {
      has_hole_ = false;
      sift_down(0, entry);
    } else {
      push_heap(entry);
    }
  }

  [[nodiscard]] bool empty() const noexcept { return ready_size_ == 0 && heap_.size() == (has_hole_ ? 1U : 0U); }
  /// Entries, cancelled ones included. O(1)
  [[nodiscard]] std::size_t size() const noexcept { return ready_size_ + heap_.size() - (has_hole_ ? 1 : 0); }

  /// Takes out the earliest entry whose time is <= `limit`; false when there is none.
  ///
  /// The root of the heap stays open afterwards: an event mostly schedules its successor, which then fills the root in
  /// one pass down, where removing first and inserting later would take a pass down and one up.
  bool pop_until(std::int64_t limit, QueueEntry& entry) {
    if (has_hole_) fill_hole();
    if (ready_size_ > 0) return pop_ready(limit, entry);
    if (heap_.empty() || heap_.front().time > limit) return false;
    entry = heap_.front();
    has_hole_ = true;
    return true;
  }

  /// Removes every cancelled entry and hands its record to `give_back`. O(size)
  void remove_cancelled(EventRecordPool& pool);

 private:
  /// First in, first out; capacity a power of two, so that an index wraps by a mask.
  class Ring {
   public:
    [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
    [[nodiscard]] const QueueEntry& front() const noexcept { return slots_[begin_ & (slots_.size() - 1)]; }
    void pop() noexcept { ++begin_; }
    void push(const QueueEntry& entry) {
      if (end_ - begin_ == slots_.size()) grow();
      slots_[end_++ & (slots_.size() - 1)] = entry;
    }
    std::size_t remove_cancelled(EventRecordPool& pool);

   private:
    void grow();
    std::vector<QueueEntry> slots_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
  };

  void push_ready(const QueueEntry& entry);
  bool pop_ready(std::int64_t limit, QueueEntry& entry);
  void push_heap(const QueueEntry& entry);
  void fill_hole();

  /// Writes `entry` at or below `hole`, moving earlier children up.
  void sift_down(std::size_t hole, const QueueEntry& entry) {
    QueueEntry* const heap = heap_.data();
    const std::size_t size = heap_.size();
    for (;;) {
      const std::size_t first = 4 * hole + 1;
      std::size_t earliest = first;
      if (first + 4 <= size) {
        const std::size_t left = first + (heap[first + 1].precedes(heap[first]) ? 1 : 0);
        const std::size_t right = first + 2 + (heap[first + 3].precedes(heap[first + 2]) ? 1 : 0);
        earliest = heap[right].precedes(heap[left]) ? right : left;
      } else if (first < size) {
        for (std::size_t child = first + 1; child < size; ++child) {
          if (heap[child].precedes(heap[earliest])) earliest = child;
        }
      } else {
        break;
      }
      if (!heap[earliest].precedes(entry)) break;
      heap[hole] = heap[earliest];
      hole = earliest;
    }
    heap[hole] = entry;
  }

  std::int64_t now_ = 0;
  bool has_hole_ = false;  // heap_[0] was taken out and not yet replaced
  std::size_t ready_size_ = 0;
  std::vector<QueueEntry> heap_;
  std::array<Ring, kNumPriorities> ready_;
};

}  // namespace kvtide::engine
