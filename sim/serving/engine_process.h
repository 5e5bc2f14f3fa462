#pragma once
// One engine as a process of the simulation: it computes step after step while it has requests, and sleeps otherwise.
//
// Steps that only decode repeat until something changes: a request finishes, one arrives that could be admitted, or blocks run out.
// Such a run of steps is one event, its duration StepTime::decode_run(). Nothing else is skipped, so the outcome is that of one step
// after another but for the rounding of a picosecond a step, and for gaps between tokens and the series, which know the length of a step
// to a thousandth.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/simulation.h"
#include "serving/engine_settings.h"
#include "serving/request_ledger.h"
#include "serving/scheduler.h"
#include "serving/serving_series.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

class EngineProcess {
 public:
  /// What an engine is told of the world, and what it tells.
  class Surroundings {
   public:
    virtual ~Surroundings() = default;
    /// No request reaches the engine before; none: never, unless one that it holds finishes.
    [[nodiscard]] virtual std::optional<Picoseconds> next_submission(const EngineProcess& engine) const = 0;
    /// A request has its last token of this engine.
    virtual void on_finish(EngineProcess& engine, std::size_t request) = 0;
    virtual void on_first_token(std::size_t request) = 0;
    /// At the end of each step, after all of the above.
    virtual void on_step(EngineProcess& engine) = 0;
    /// Nothing more is to be computed.
    [[nodiscard]] virtual bool is_over() const = 0;
  };

  /// All references outlive this object. @param most_steps  of one run, >= 1
  EngineProcess(engine::Simulation& simulation, Surroundings& surroundings, RequestLedger& ledger,
                ServingSeries& series, const EngineSettings& settings, StepTime& step_time,
                std::int64_t shared_block_tokens, std::int64_t most_steps);

  /// Joins the line now; wake() once all of an instant have.
  void submit(std::size_t request, Request what);
  /// Begins a step if there is something to do and none under way.
  void wake();

  [[nodiscard]] std::int64_t num_in_flight() const { return scheduler_.num_running() + scheduler_.num_waiting(); }
  [[nodiscard]] const SchedulerCounters& counters() const { return scheduler_.counters(); }
  /// When the step under way ends; none: asleep.
  [[nodiscard]] std::optional<Picoseconds> busy_until() const;
  [[nodiscard]] std::int64_t max_running() const { return max_running_; }
  [[nodiscard]] double max_used_share() const { return max_used_share_; }
  [[nodiscard]] std::int64_t output_tokens() const { return output_tokens_; }

 private:
  void begin_step();
  void finish_step();
  Picoseconds run_of_steps(const StepShape& shape);
  void add_equal_steps(const StepShape& shape, std::int64_t done, std::int64_t steps, Picoseconds duration);
  void add_to_series(SeriesState whole);

  engine::Simulation& simulation_;
  Surroundings& surroundings_;
  RequestLedger& ledger_;
  ServingSeries& series_;
  const EngineSettings& settings_;
  StepTime& step_time_;
  std::int64_t most_steps_;
  Scheduler scheduler_;
  Picoseconds step_begin_{0}, step_end_{0};
  std::int64_t num_steps_ = 1;
  std::vector<EqualSteps> equal_steps_;  // those steps
  SeriesState state_;
  bool is_busy_ = false;
  std::int64_t max_running_ = 0;
  double max_used_share_ = 0;  // of the blocks
  std::int64_t output_tokens_ = 0;
};

}  // namespace kvtide::serving
