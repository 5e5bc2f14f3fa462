#include "engine/event.h"

#include "base/error.h"

namespace kvtide::engine {

bool Event::trigger() {
  if (is_triggered_) return false;
  is_triggered_ = true;
  while (!waiters_.empty()) {
    EventWaiter& waiter = waiters_.front();
    waiter.unlink();
    waiter.wait->count(waiter.index);
  }
  return true;
}

bool Wait::begin(std::span<Event* const> events, std::size_t num_needed) {
  num_missing_ = num_needed;
  for (std::size_t index = 0; index < events.size() && num_missing_ > 0; ++index) {
    if (!events[index]->is_triggered()) continue;
    note_first(index);
    --num_missing_;
  }
  return num_missing_ == 0;
}

void Wait::suspend(Process::Frame frame, std::span<Event* const> events, std::span<EventWaiter> waiters) {
  for (const Event* event : events) event->simulation_->require_own(frame);
  frame_ = frame;
  for (std::size_t index = 0; index < events.size(); ++index) {
    if (events[index]->is_triggered()) continue;
    waiters[index].wait = this;
    waiters[index].index = index;
    events[index]->waiters_.push_back(waiters[index]);
  }
}

void Wait::note_first(std::size_t index) {
  if (!has_first_) first_ = index;
  has_first_ = true;
}

void Wait::count(std::size_t index) {
  if (num_missing_ == 0) return;  // any_of has its first already
  note_first(index);
  if (--num_missing_ == 0) frame_.promise().simulation->wake(frame_);
}

namespace {

SpanEventWait wait_for(std::span<Event* const> events, std::size_t num_needed) {
  return {std::vector<Event*>(events.begin(), events.end()), num_needed};
}

}  // namespace

SpanEventWait any_of(std::span<Event* const> events) {
  if (events.empty()) throw InputError("any_of over no event would wait forever; expected at least 1 event");
  return wait_for(events, 1);
}

SpanEventWait all_of(std::span<Event* const> events) {
  return wait_for(events, events.size());
}

}  // namespace kvtide::engine
