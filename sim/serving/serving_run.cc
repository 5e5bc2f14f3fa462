#include "serving/serving_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/simulation.h"

namespace kvtide::serving {
namespace {

/// The engine as a process of the simulation: it sleeps while it has nothing to do.
class Server {
 public:
  Server(engine::Simulation& simulation, const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time)
      : simulation_(simulation),
        trace_(trace),
        settings_(settings),
        step_time_(step_time),
        scheduler_(settings, trace.shared_block_tokens) {
    outcome_.requests.resize(trace.requests.size());
    schedule_arrival();
  }
  ServingOutcome take() {
    outcome_.counters = scheduler_.counters();
    return std::move(outcome_);
  }

 private:
  /// Only the next arrival is pending: memory does not grow with the trace.
  void schedule_arrival() {
    if (next_ == trace_.requests.size()) return;
    simulation_.schedule_at(trace_.requests[next_].arrival, [this] {
      const Picoseconds now = simulation_.now();
      for (; next_ < trace_.requests.size() && trace_.requests[next_].arrival <= now; ++next_) {
        scheduler_.add(next_, trace_.requests[next_]);
        outcome_.requests[next_].queued = trace_.requests[next_].arrival;
        outcome_.requests[next_].scheduled = Picoseconds{-1};
        outcome_.requests[next_].output_tokens = trace_.requests[next_].output_tokens;
      }
      schedule_arrival();
      if (!is_busy_) begin_step();
    });
  }

  void begin_step() {
    if (scheduler_.is_idle()) return;
    StepShape shape = scheduler_.begin_step();
    // A request that preempted itself left the step empty; the next one admits it again.
    while (shape.num_rows == 0) shape = scheduler_.begin_step();
    for (const std::size_t request : scheduler_.admitted()) {
      RequestTimes& times = outcome_.requests[request];
      if (times.scheduled < Picoseconds{0}) times.scheduled = simulation_.now();
    }
    outcome_.max_running = std::max(outcome_.max_running, scheduler_.num_running());
    const double free = static_cast<double>(scheduler_.num_free_blocks());
    outcome_.max_used_share =
        std::max(outcome_.max_used_share, 1.0 - free / static_cast<double>(settings_.num_blocks - 1));
    is_busy_ = true;
    simulation_.schedule_in(step_time_.duration(shape), [this] { finish_step(); });
  }

  void finish_step() {
    is_busy_ = false;
    const Picoseconds now = simulation_.now();
    for (const Advance& advance : scheduler_.finish_step()) {
      RequestTimes& times = outcome_.requests[advance.request];
      if (!advance.has_token) continue;
      if (times.first_token == Picoseconds{0}) times.first_token = now;
      if (advance.is_finished) {
        times.last_token = now;
        outcome_.makespan = now - trace_.requests.front().arrival;
      }
    }
    begin_step();
  }

  engine::Simulation& simulation_;
  const RequestTrace& trace_;
  const EngineSettings& settings_;
  StepTime& step_time_;
  Scheduler scheduler_;
  ServingOutcome outcome_;
  std::size_t next_ = 0;
  bool is_busy_ = false;
};

}  // namespace

double RequestTimes::tpot_seconds() const {
  return output_tokens > 1 ? to_seconds(last_token - first_token) / static_cast<double>(output_tokens - 1)
                           : std::numeric_limits<double>::quiet_NaN();
}

ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time) {
  engine::Simulation simulation;
  Server server(simulation, trace, settings, step_time);
  simulation.run();
  return server.take();
}

}  // namespace kvtide::serving
