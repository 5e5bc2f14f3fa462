#pragma once
// The clock and the loop: takes the earliest pending event, moves the clock to it, acts, and so on until nothing is
// pending.
//
// Time is an integer count of picoseconds from 0. Events of one instant are ordered by priority, then by the order in
// which they were scheduled, so a run is a pure function of what the caller schedules. One simulation belongs to one
// thread at a time; several simulations share nothing and may run in parallel.
//
// Example: a call scheduled at 30 ps, a process that delays 10 ps twice, run_until(20 ps): the process has finished (an
// event at exactly the limit runs), the call has not, now() = 20 ps.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/units.h"
#include "engine/event_queue.h"
#include "engine/event_record.h"
#include "engine/priority.h"
#include "engine/process.h"

namespace kvtide::engine {

class Simulation;

/// A scheduled call, for cancelling it. May be copied and kept after the call; must not be used after the simulation is
/// gone.
class ScheduledCall {
 public:
  ScheduledCall() = default;
  /// True until the call begins or is cancelled.
  [[nodiscard]] bool is_pending() const noexcept { return record_ != nullptr && record_->serial == serial_; }
  /// Withdraws the call and destroys its callable at once. @return false when it had already begun or been cancelled
  bool cancel();

 private:
  friend class Simulation;
  ScheduledCall(Simulation* simulation, EventRecord* record)
      : simulation_(simulation), record_(record), serial_(record->serial) {}
  Simulation* simulation_ = nullptr;
  EventRecord* record_ = nullptr;
  std::uint64_t serial_ = 0;
};

/// What Simulation::delay returns; await it at once.
class [[nodiscard]] Delay {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(Process::Frame frame) const;
  void await_resume() const noexcept {}

 private:
  friend class Simulation;
  Delay(Simulation& simulation, Picoseconds duration, Priority priority)
      : simulation_(simulation), duration_(duration), priority_(priority) {}
  Simulation& simulation_;
  Picoseconds duration_;
  Priority priority_;
};

class Simulation {
 public:
  Simulation() = default;
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  /// Destroys the processes that still wait, newest first, then the calls still pending.
  ~Simulation();

  [[nodiscard]] Picoseconds now() const noexcept { return Picoseconds{queue_.now()}; }

  /// Calls `call()` at `time`. @throws InputError when `time` lies before now()
  template <class F>
  ScheduledCall schedule_at(Picoseconds time, F&& call, Priority priority = Priority::normal) {
    if (time < now()) refuse_past(time);
    return schedule(time.count(), std::forward<F>(call), priority);
  }
  /// Calls `call()` after `delay`. @throws InputError when `delay` is negative or ends beyond the last representable
  /// time
  template <class F>
  ScheduledCall schedule_in(Picoseconds delay, F&& call, Priority priority = Priority::normal) {
    return schedule(due(delay), std::forward<F>(call), priority);
  }

  /// Starts a process: its first statement runs at the present instant, after the events already scheduled for it.
  ProcessHandle start(Process process, Priority priority = Priority::normal);

  /// `co_await delay(d)` suspends the process for `duration`. A zero delay lets the other events of this instant go
  /// first.
  /// @throws InputError at the co_await when `duration` is negative or ends beyond the last representable time
  Delay delay(Picoseconds duration, Priority priority = Priority::normal) { return {*this, duration, priority}; }

  /// Runs until nothing is pending or stop() is called. What a process or call throws leaves run(); that process is
  /// finished then, everything else is as it was, and run() may be called again.
  void run();
  /// Runs every event with time <= `time`, then sets the clock to `time` (unless stopped). @throws InputError when
  /// `time` < now()
  void run_until(Picoseconds time);
  /// Runs one event. @return false when nothing was pending
  bool step();
  /// Makes run() or run_until() return after the present event.
  void stop() noexcept { is_stopped_ = true; }

  /// Events acted on since construction; cancelled ones do not count.
  [[nodiscard]] std::uint64_t num_fired() const noexcept { return num_fired_; }
  /// Events that will still fire if nothing is cancelled. O(1)
  [[nodiscard]] std::size_t num_pending() const noexcept { return queue_.size() - num_cancelled_; }
  /// Processes started and not finished.
  [[nodiscard]] std::size_t num_processes() const noexcept { return num_processes_; }

  /// For awaitables: resumes `frame` at the present instant with normal priority, after what is already scheduled for
  /// it.
  void wake(Process::Frame frame) {
    if (!is_closing_) push_resume(queue_.now(), frame, Priority::normal);
  }
  /// For awaitables: `frame` must belong to a process of this simulation. @throws Error (internal) otherwise
  void require_own(Process::Frame frame) const {
    if (frame.promise().simulation != this) refuse_foreign();
  }

 private:
  friend class ScheduledCall;
  friend class Delay;
  friend class ProcessHandle;
  friend struct FinalSuspend;

  template <class F>
  ScheduledCall schedule(std::int64_t time, F&& call, Priority priority) {
    if (is_closing_) return {};
    EventRecord* record = pool_.take();
    record->hold(std::forward<F>(call));
    push(time, record, priority);
    return {this, record};
  }
  void push_resume(std::int64_t time, Process::Frame frame, Priority priority) {
    EventRecord* record = pool_.take();
    record->hold_frame(frame.address());
    push(time, record, priority);
    frame.promise().wake = record;
  }
  void push(std::int64_t time, EventRecord* record, Priority priority) {
    record->serial = ++last_serial_;
    queue_.push({time, (static_cast<std::uint64_t>(priority) << QueueEntry::kSerialBits) | last_serial_, record});
  }
  /// now() + delay in ps. @throws InputError when negative or beyond int64
  [[nodiscard]] std::int64_t due(Picoseconds delay) const {
    std::int64_t time = 0;
    if (delay.count() < 0 || __builtin_add_overflow(queue_.now(), delay.count(), &time)) refuse_delay(delay);
    return time;
  }
  [[noreturn]] void refuse_past(Picoseconds time) const;
  [[noreturn]] void refuse_delay(Picoseconds delay) const;
  [[noreturn]] static void refuse_foreign();

  void run_events(std::int64_t limit);
  bool fire_next(std::int64_t limit);
  void fire_call(EventRecord* record);
  void resume(Process::Frame frame);
  void finish_ended();
  bool cancel_process(Process::Frame frame);
  void destroy_process(Process::Frame frame);
  void withdraw(EventRecord* record);

  EventQueue queue_;
  EventRecordPool pool_;
  std::uint64_t last_serial_ = 0;
  std::uint64_t num_fired_ = 0;
  std::size_t num_cancelled_ = 0;  // cancelled entries still in queue_
  std::size_t num_processes_ = 0;
  Process::promise_type* newest_process_ = nullptr;
  Process::Frame running_;  // being resumed just now
  Process::Frame ended_;    // running_, once it has to be destroyed when it suspends
  int num_clearing_ = 0;    // callables being destroyed by withdraw(), one inside the other
  bool is_running_ = false;
  bool is_stopped_ = false;
  bool is_closing_ = false;  // the destructor runs: nothing new is scheduled
};

inline void Delay::await_suspend(Process::Frame frame) const {
  simulation_.require_own(frame);
  simulation_.push_resume(simulation_.due(duration_), frame, priority_);
}

inline void FinalSuspend::await_suspend(Process::Frame frame) const noexcept {
  frame.promise().simulation->ended_ = frame;
}

}  // namespace kvtide::engine
