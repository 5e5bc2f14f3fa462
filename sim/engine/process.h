#pragma once
// A process: a C++20 coroutine that lives in simulated time. It runs until it awaits something (a delay, an event, a
// resource, a store) and goes on when that has come.
//
//   Process sender(Simulation& simulation, Resource& link) {
//     co_await simulation.delay(Picoseconds{40});     // 40 ps later
//     Hold hold = co_await link.request();            // when the link is free
//     co_await simulation.delay(Picoseconds{100});    // ... and held until the end of the scope
//   }
//
// A coroutine copies its parameters into its frame, but not what a lambda captured: pass state as parameters.

#include <coroutine>
#include <exception>
#include <utility>

namespace kvtide::engine {

class Event;
class ProcessHandle;
class Simulation;
class EventRecord;
struct ProcessState;

/// What a process coroutine returns. Nothing of it runs before Simulation::start takes it; dropped unstarted, it only
/// frees its frame.
class [[nodiscard]] Process {
 public:
  struct promise_type;
  using Frame = std::coroutine_handle<promise_type>;

  Process(Process&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  Process& operator=(Process&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Process() {
    if (frame_) frame_.destroy();
  }

 private:
  friend class Simulation;
  explicit Process(Frame frame) : frame_(frame) {}
  Frame frame_;
};

/// Tells the simulation that the process has run to its end; the frame is freed once it is suspended.
struct FinalSuspend {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(Process::Frame frame) const noexcept;
  void await_resume() const noexcept {}
};

struct Process::promise_type {
  Process get_return_object() { return Process(Frame::from_promise(*this)); }
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] FinalSuspend final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { failure = std::current_exception(); }

  Simulation* simulation = nullptr;  ///< set by Simulation::start
  EventRecord* wake = nullptr;       ///< the pending event that will resume this process; a process has at most one
  ProcessState* state = nullptr;     ///< shared with the handles
  promise_type* previous = nullptr;  ///< the list of all live processes of the simulation
  promise_type* next = nullptr;
  std::exception_ptr failure;
};

/// A started process, seen from outside. Copies refer to the same process; a handle may outlive its process, but
/// `done()` must not be awaited after the simulation is gone.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  ProcessHandle(const ProcessHandle& other) noexcept;
  ProcessHandle(ProcessHandle&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ProcessHandle& operator=(ProcessHandle other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~ProcessHandle();

  /// True once the process returned, threw or was cancelled; true for an empty handle.
  [[nodiscard]] bool is_finished() const noexcept;

  /// Ends the process where it waits: its pending wake-up is withdrawn and its locals are destroyed, so that what it
  /// held is released at this instant. A process that cancels itself ends at its next wait.
  /// @return false when it had already finished
  bool cancel() const;

  /// Triggered when the process has finished, however it ended. The handle must not be empty and must outlive the wait.
  [[nodiscard]] Event& done() const;

 private:
  friend class Simulation;
  explicit ProcessHandle(ProcessState* state) noexcept;
  ProcessState* state_ = nullptr;
};

}  // namespace kvtide::engine
