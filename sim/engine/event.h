#pragma once
// Something that happens once, and those who wait for it; waiting for the first or for all of several.
//
//   Event loaded(simulation);
//   Timeout late(simulation, Picoseconds{500});
//   if (co_await any_of(loaded, late) == 1) { ... }   // 500 ps went by first
//   co_await all_of(first_half, second_half);
//
// A waiter wakes by an event of its own, at the instant of the trigger and with normal priority, in order of waiting.

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/simulation.h"
#include "engine/wait_list.h"

namespace kvtide::engine {

class Wait;

/// One event that one Wait waits for.
class EventWaiter : public WaitNode {
 public:
  Wait* wait = nullptr;
  std::size_t index = 0;  ///< the place of the event among those waited for
};

/// A latch. Owned by whoever declares it; destroyed while processes wait, it leaves them waiting forever.
class Event {
 public:
  explicit Event(Simulation& simulation) : simulation_(&simulation) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Wakes all who wait; whoever waits from now on goes on at once. @return false when it was triggered already
  bool trigger();
  /// Makes it wait for the next trigger again; those woken stay woken.
  void reset() noexcept { is_triggered_ = false; }
  [[nodiscard]] bool is_triggered() const noexcept { return is_triggered_; }

  /// `co_await event.wait()`
  [[nodiscard]] auto wait();

 private:
  friend class Wait;
  Simulation* simulation_;
  bool is_triggered_ = false;
  WaitList<EventWaiter> waiters_;
};

/// An Event that triggers itself `delay` after its construction, unless it is destroyed or cancelled before. Must not
/// outlive the simulation.
class Timeout : public Event {
 public:
  Timeout(Simulation& simulation, Picoseconds delay, Priority priority = Priority::normal)
      : Event(simulation),
        call_(simulation.schedule_in(
            delay, [this] { trigger(); }, priority)) {}
  ~Timeout() { call_.cancel(); }
  bool cancel() { return call_.cancel(); }

 private:
  ScheduledCall call_;
};

/// A process's wait until a number of events have triggered; the part that does not depend on how many there are.
class Wait {
 public:
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 protected:
  Wait() = default;
  ~Wait() = default;
  /// Counts what has triggered already. @return true when that suffices
  bool begin(std::span<Event* const> events, std::size_t num_needed);
  void suspend(Process::Frame frame, std::span<Event* const> events, std::span<EventWaiter> waiters);
  /// Place of the event that triggered first; of those triggered before the wait, the lowest.
  [[nodiscard]] std::size_t first() const noexcept { return first_; }

 private:
  friend class Event;
  void count(std::size_t index);
  void note_first(std::size_t index);

  Process::Frame frame_;
  std::size_t num_missing_ = 0;
  std::size_t first_ = 0;
  bool has_first_ = false;
};

/// Awaitable over a fixed or run-time number of events. Await it at once; the events must outlive the wait.
/// @tparam Events, Waiters arrays or vectors of Event* and EventWaiter, of equal size
template <class Events, class Waiters>
class [[nodiscard]] EventWait : Wait {
 public:
  EventWait(Events events, std::size_t num_needed) : events_(std::move(events)), num_needed_(num_needed) {}

  [[nodiscard]] bool await_ready() { return begin(events_, num_needed_); }
  void await_suspend(Process::Frame frame) {
    if constexpr (requires { waiters_.resize(1); }) waiters_ = Waiters(events_.size());
    suspend(frame, events_, waiters_);
  }
  /// The place of the event that triggered first.
  std::size_t await_resume() const noexcept { return first(); }

 private:
  Events events_;
  std::size_t num_needed_;
  Waiters waiters_;
};

template <std::size_t count>
using FixedEventWait = EventWait<std::array<Event*, count>, std::array<EventWaiter, count>>;
using SpanEventWait = EventWait<std::vector<Event*>, std::vector<EventWaiter>>;

inline auto Event::wait() {
  return FixedEventWait<1>({this}, 1);
}

/// Until the first of the events triggers. @return (of co_await) its place in the argument list, from 0
template <class... Events>
requires(sizeof...(Events) > 0 && (std::is_base_of_v<Event, Events> && ...))
    [[nodiscard]] auto any_of(Events&... events) {
  return FixedEventWait<sizeof...(Events)>({&events...}, 1);
}
/// Until every one of the events has triggered, in whatever order.
template <class... Events>
requires(sizeof...(Events) > 0 && (std::is_base_of_v<Event, Events> && ...))
    [[nodiscard]] auto all_of(Events&... events) {
  return FixedEventWait<sizeof...(Events)>({&events...}, sizeof...(Events));
}
/// The same for a number known at run time. @throws InputError for any_of over no event, which would wait forever
[[nodiscard]] SpanEventWait any_of(std::span<Event* const> events);
[[nodiscard]] SpanEventWait all_of(std::span<Event* const> events);

}  // namespace kvtide::engine
