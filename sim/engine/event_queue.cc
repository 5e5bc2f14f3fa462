#include "engine/event_queue.h"

#include <algorithm>

namespace kvtide::engine {

void EventQueue::push_ready(const QueueEntry& entry) {
  ready_[entry.order >> QueueEntry::kSerialBits].push(entry);
  ++ready_size_;
}

bool EventQueue::pop_ready(std::int64_t limit, QueueEntry& entry) {
  if (now_ > limit) return false;
  auto ring = ready_.begin();
  while (ring->empty()) ++ring;  // ready_size_ > 0: one is not
  if (!heap_.empty() && heap_.front().precedes(ring->front())) {
    entry = heap_.front();
    has_hole_ = true;
  } else {
    entry = ring->front();
    ring->pop();
    --ready_size_;
  }
  return true;
}

void EventQueue::push_heap(const QueueEntry& entry) {
  heap_.push_back(entry);
  std::size_t hole = heap_.size() - 1;
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / 4;
    if (!entry.precedes(heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = entry;
}

void EventQueue::fill_hole() {
  has_hole_ = false;
  const QueueEntry last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) sift_down(0, last);
}

void EventQueue::remove_cancelled(EventRecordPool& pool) {
  if (has_hole_) fill_hole();
  const auto dead = [&pool](const QueueEntry& entry) {
    if (entry.is_live()) return false;
    pool.give_back(entry.record);
    return true;
  };
  heap_.erase(std::remove_if(heap_.begin(), heap_.end(), dead), heap_.end());
  for (std::size_t node = heap_.size() / 4 + 1; node-- > 0;) {
    if (node < heap_.size()) sift_down(node, QueueEntry(heap_[node]));
  }
  for (Ring& ring : ready_) ready_size_ -= ring.remove_cancelled(pool);
}

std::size_t EventQueue::Ring::remove_cancelled(EventRecordPool& pool) {
  const std::size_t size = end_ - begin_;
  for (std::size_t i = 0; i < size; ++i) {
    const QueueEntry entry = front();
    pop();
    if (entry.is_live()) {
      push(entry);
    } else {
      pool.give_back(entry.record);
    }
  }
  return size - (end_ - begin_);
}

void EventQueue::Ring::grow() {
  std::vector<QueueEntry> larger(std::max<std::size_t>(16, 2 * slots_.size()));
  const std::size_t size = end_ - begin_;
  for (std::size_t i = 0; i < size; ++i) larger[i] = slots_[(begin_ + i) & (slots_.size() - 1)];
  slots_ = std::move(larger);
  begin_ = 0;
  end_ = size;
}

}  // namespace kvtide::engine
