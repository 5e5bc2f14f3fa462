#include "serving/serving_run.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "engine/simulation.h"

namespace kvtide::serving {
namespace {

/// The engine as a process of the simulation: it sleeps while it has nothing to do.
class Server {
 public:
  Server(engine::Simulation& simulation, RequestSource& source, const EngineSettings& settings, StepTime& step_time,
         const ServeOptions& options)
      : simulation_(simulation),
        source_(source),
        settings_(settings),
        step_time_(step_time),
        options_(options),
        scheduler_(settings, options.shared_block_tokens) {
    schedule_arrival();
  }
  ServingOutcome take() {
    outcome_.counters = scheduler_.counters();
    outcome_.num_requests = static_cast<std::int64_t>(num_arrived_);
    return std::move(outcome_);
  }

 private:
  struct InFlight {
    RequestTimes times;
    bool is_finished = false;
  };
  InFlight& in_flight(std::size_t request) { return in_flight_[request - num_reported_]; }

  /// Only the next arrival is pending: memory does not grow with the trace.
  void schedule_arrival() {
    const std::optional<Picoseconds> next = source_.next_arrival();
    if (!next || has_pending_arrival_) return;
    has_pending_arrival_ = true;
    simulation_.schedule_at(std::max(*next, simulation_.now()), [this] {
      has_pending_arrival_ = false;
      const Picoseconds now = simulation_.now();
      for (auto next = source_.next_arrival(); next && *next <= now; next = source_.next_arrival()) arrive(*next);
      schedule_arrival();
      if (!is_busy_) begin_step();
    });
  }

  void arrive(Picoseconds arrival) {
    Request request = source_.take();
    InFlight added;
    added.times.queued = arrival;
    added.times.scheduled = Picoseconds{-1};
    added.times.input_tokens = request.input_tokens;
    added.times.output_tokens = request.output_tokens;
    in_flight_.push_back(added);
    if (num_arrived_ == 0) first_arrival_ = arrival;
    scheduler_.add(num_arrived_++, std::move(request));
  }

  void begin_step() {
    if (scheduler_.is_idle()) return;
    const StepShape* shape = &scheduler_.begin_step();
    // A request that preempted itself left the step empty; the next one admits it again.
    while (shape->num_rows == 0) shape = &scheduler_.begin_step();
    const Picoseconds now = simulation_.now();
    for (const Admission& admission : scheduler_.admitted()) {
      RequestTimes& times = in_flight(admission.request).times;
      if (times.scheduled >= Picoseconds{0}) {
        ++times.preemptions;
      } else {
        times.scheduled = now;
        times.cached_tokens = admission.cached_tokens;
      }
    }
    outcome_.max_running = std::max(outcome_.max_running, scheduler_.num_running());
    num_steps_ = std::min(scheduler_.repeatable_steps(), options_.max_steps_at_once);
    Picoseconds duration = num_steps_ > 1 ? run_of_steps(*shape) : step_time_.duration(*shape);
    step_begin_ = now;
    state_ = {.running = scheduler_.num_running(),
              .waiting = scheduler_.num_waiting(),
              .used_blocks = settings_.num_blocks - 1 - scheduler_.num_free_blocks(),
              .used_tokens = 0,
              .output_tokens = 0,
              .prompt_tokens = shape->num_tokens() - shape->num_decodes};
    is_busy_ = true;
    simulation_.schedule_in(std::max(duration, Picoseconds{1}), [this] { finish_step(); });
  }

  /// Ends with the first step that an arrival could change: with nobody waiting, the one during which it arrives.
  Picoseconds run_of_steps(const StepShape& shape) {
    const auto time_of = [&](std::int64_t steps) {
      return step_time_.decode_run(shape.num_decodes, shape.decode_kv_tokens, steps);
    };
    Picoseconds duration = time_of(num_steps_);
    const std::optional<Picoseconds> next = source_.next_arrival();
    if (scheduler_.num_waiting() > 0 || !next) return duration;
    const Picoseconds until = *next - simulation_.now();
    if (duration < until) return duration;
    // The steps lengthen slowly: the mean step leads close to the answer.
    std::int64_t too_few = 0;  // these end before the arrival
    std::int64_t enough = num_steps_;
    while (enough - too_few > 1) {
      const double share = to_seconds(until) / to_seconds(duration) * static_cast<double>(enough);
      const std::int64_t middle = std::clamp(static_cast<std::int64_t>(share) + 1, too_few + 1, enough - 1);
      const Picoseconds time = time_of(middle);
      if (time < until) {
        too_few = middle;
        if (middle + 1 < enough && time_of(middle + 1) >= until) enough = middle + 1, duration = time_of(enough);
      } else {
        enough = middle;
        duration = time;
      }
    }
    num_steps_ = enough;
    return time_of(enough);
  }

  void finish_step() {
    is_busy_ = false;
    const Picoseconds now = simulation_.now();
    bool has_finished = false;
    const std::vector<Advance>& advances = scheduler_.finish_step(num_steps_);
    for (const Advance& advance : advances) {
      state_.used_tokens += advance.context_tokens;
      if (!advance.has_token) continue;
      state_.output_tokens += num_steps_;
      InFlight& one = in_flight(advance.request);
      if (one.times.first_token == Picoseconds{0}) one.times.first_token = now;
      if (!advance.is_finished) continue;
      one.times.last_token = now;
      one.is_finished = has_finished = true;
      outcome_.makespan = now - first_arrival_;
      source_.on_finish(now);
    }
    const double used = static_cast<double>(scheduler_.most_used_blocks());
    outcome_.max_used_share = std::max(outcome_.max_used_share, used / static_cast<double>(settings_.num_blocks - 1));
    outcome_.output_tokens += state_.output_tokens;
    outcome_.series.add(step_begin_, now, state_);
    if (has_finished) {
      report_finished();
      schedule_arrival();
    }
    begin_step();
  }

  void report_finished() {
    while (!in_flight_.empty() && in_flight_.front().is_finished) {
      if (options_.on_request) {
        options_.on_request(in_flight_.front().times);
      } else {
        outcome_.requests.push_back(in_flight_.front().times);
      }
      in_flight_.pop_front();
      ++num_reported_;
    }
  }

  engine::Simulation& simulation_;
  RequestSource& source_;
  const EngineSettings& settings_;
  StepTime& step_time_;
  const ServeOptions& options_;
  Scheduler scheduler_;
  ServingOutcome outcome_;
  std::deque<InFlight> in_flight_;  // from request num_reported_ on
  std::size_t num_reported_ = 0;
  std::size_t num_arrived_ = 0;
  Picoseconds first_arrival_{0};
  Picoseconds step_begin_{0};
  std::int64_t num_steps_ = 1;
  SeriesState state_;
  bool is_busy_ = false;
  bool has_pending_arrival_ = false;
};

}  // namespace

double RequestTimes::tpot_seconds() const {
  return output_tokens > 1 ? to_seconds(last_token - first_token) / static_cast<double>(output_tokens - 1)
                           : std::numeric_limits<double>::quiet_NaN();
}

ServingOutcome serve(RequestSource& source, const EngineSettings& settings, StepTime& step_time,
                     const ServeOptions& options) {
  engine::Simulation simulation;
  Server server(simulation, source, settings, step_time, options);
  simulation.run();
  return server.take();
}

ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time) {
  TraceSource source(trace);
  return serve(source, settings, step_time, {.shared_block_tokens = trace.shared_block_tokens});
}

}  // namespace kvtide::serving
