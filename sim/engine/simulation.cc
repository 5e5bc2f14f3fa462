#include "engine/simulation.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "engine/process_state.h"

namespace kvtide::engine {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Marks the loop as running, so that it is not entered from inside.
class Running {
 public:
  explicit Running(bool& flag) : flag_(flag) {
    KVTIDE_ASSERT(!flag, "run, run_until or step was called from inside a process or call of the same simulation");
    flag_ = true;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { flag_ = false; }

 private:
  bool& flag_;
};

}  // namespace

Simulation::~Simulation() {
  is_closing_ = true;
  while (newest_process_ != nullptr) destroy_process(Process::Frame::from_promise(*newest_process_));
  pool_.for_each([](EventRecord& record) {
    record.serial = 0;
    record.clear();
  });
}

ProcessHandle Simulation::start(Process process, Priority priority) {
  KVTIDE_ASSERT(process.frame_, "the process was already started");
  if (is_closing_) return {};
  const Process::Frame frame = process.frame_;
  auto& promise = frame.promise();
  promise.state = new ProcessState(*this, frame);
  promise.state->num_owners = 1;
  ProcessHandle handle(promise.state);
  process.frame_ = {};
  promise.simulation = this;
  promise.next = newest_process_;
  if (newest_process_ != nullptr) newest_process_->previous = &promise;
  newest_process_ = &promise;
  ++num_processes_;
  push_resume(queue_.now(), frame, priority);
  return handle;
}

void Simulation::run() {
  run_events(kNever);
}

void Simulation::run_until(Picoseconds time) {
  if (time < now()) refuse_past(time);
  run_events(time.count());
  if (!is_stopped_) queue_.advance_to(time.count());
}

bool Simulation::step() {
  const Running running(is_running_);
  return fire_next(kNever);
}

void Simulation::run_events(std::int64_t limit) {
  const Running running(is_running_);
  is_stopped_ = false;
  while (!is_stopped_ && fire_next(limit)) {
  }
}

bool Simulation::fire_next(std::int64_t limit) {
  QueueEntry entry;
  for (;;) {
    if (!queue_.pop_until(limit, entry)) return false;
    if (entry.is_live()) [[likely]]
      break;
    --num_cancelled_;
    pool_.give_back(entry.record);
  }
  queue_.advance_to(entry.time);
  ++num_fired_;
  EventRecord* const record = entry.record;
  record->serial = 0;
  if (record->holds_callable()) {
    fire_call(record);
  } else {
    const auto frame = Process::Frame::from_address(record->frame());
    pool_.give_back(record);
    resume(frame);
  }
  return true;
}

void Simulation::fire_call(EventRecord* record) {
  struct GiveBack {
    EventRecordPool& pool;
    EventRecord* record;
    ~GiveBack() {
      record->clear();
      pool.give_back(record);
    }
  } give_back{pool_, record};
  record->call();
}

void Simulation::resume(Process::Frame frame) {
  frame.promise().wake = nullptr;
  running_ = frame;
  frame.resume();
  running_ = {};
  if (ended_) [[unlikely]]
    finish_ended();
}

void Simulation::finish_ended() {
  const Process::Frame frame = std::exchange(ended_, {});
  const std::exception_ptr failure = std::move(frame.promise().failure);
  destroy_process(frame);
  if (failure) std::rethrow_exception(failure);
}

bool Simulation::cancel_process(Process::Frame frame) {
  if (frame == running_) {
    ended_ = frame;
  } else {
    destroy_process(frame);
  }
  return true;
}

void Simulation::destroy_process(Process::Frame frame) {
  auto& promise = frame.promise();
  if (promise.previous != nullptr) promise.previous->next = promise.next;
  if (promise.next != nullptr) promise.next->previous = promise.previous;
  if (newest_process_ == &promise) newest_process_ = promise.next;
  --num_processes_;
  if (promise.wake != nullptr) withdraw(promise.wake);
  ProcessState* const state = promise.state;
  state->frame = {};
  frame.destroy();
  state->done.trigger();
  state->disown();
}

bool ScheduledCall::cancel() {
  if (!is_pending()) return false;
  EventRecord* const record = std::exchange(record_, nullptr);
  simulation_->withdraw(record);
  return true;
}

void Simulation::withdraw(EventRecord* record) {
  // The queue keeps the entry until it surfaces or until the cancelled are the majority, so a cancellation costs O(1)
  // on average.
  record->serial = 0;
  ++num_cancelled_;
  ++num_clearing_;
  record->clear();  // may come back here: what it destroys may cancel or schedule
  --num_clearing_;
  constexpr std::size_t kFewEnough = 1024;  // below this, sweeping is not worth its fixed cost
  // Not while a callable is being destroyed: its record must not be handed out yet.
  if (num_clearing_ == 0 && num_cancelled_ > kFewEnough && num_cancelled_ > queue_.size() / 2) {
    queue_.remove_cancelled(pool_);
    num_cancelled_ = 0;
  }
}

void Simulation::refuse_past(Picoseconds time) const {
  throw InputError(
      fmt::format("event time {} ps lies in the past; the simulation is at {} ps, allowed is that or later",
                  time.count(), queue_.now()));
}

void Simulation::refuse_delay(Picoseconds delay) const {
  throw InputError(
      fmt::format("delay of {} ps at {} ps; allowed are 0 to {} ps, so that the event time fits into 64 bits",
                  delay.count(), queue_.now(), kNever - queue_.now()));
}

void Simulation::refuse_foreign() {
  KVTIDE_ASSERT(false, "a process waited for something of another simulation, or was never started");
  throw Error(Error::Kind::internal, "unreachable");
}

}  // namespace kvtide::engine
