#include "serving/engine_process.h"

#include <algorithm>
#include <utility>

#include "serving/simulated_time.h"

namespace kvtide::serving {

EngineProcess::EngineProcess(engine::Simulation& simulation, Surroundings& surroundings, RequestLedger& ledger,
                             ServingSeries& series, const EngineSettings& settings, StepTime& step_time,
                             std::int64_t shared_block_tokens, std::int64_t most_steps)
    : simulation_(simulation),
      surroundings_(surroundings),
      ledger_(ledger),
      series_(series),
      settings_(settings),
      step_time_(step_time),
      most_steps_(most_steps),
      scheduler_(settings, shared_block_tokens) {}

void EngineProcess::submit(std::size_t request, Request what) {
  scheduler_.add(request, std::move(what));
  if (is_busy_) series_.add_waiting(simulation_.now(), step_end_);
}

void EngineProcess::wake() {
  if (!is_busy_) begin_step();
}

std::optional<Picoseconds> EngineProcess::busy_until() const {
  return is_busy_ ? std::optional(step_end_) : std::nullopt;
}

void EngineProcess::begin_step() {
  if (scheduler_.is_idle() || surroundings_.is_over()) return;
  const StepShape* shape = &scheduler_.begin_step();
  // A request that preempted itself left the step empty; the next one admits it again.
  while (shape->num_rows == 0) shape = &scheduler_.begin_step();
  const Picoseconds now = simulation_.now();
  for (const Admission& admission : scheduler_.admitted()) {
    ledger_.on_scheduled(admission.request, now, admission.cached_tokens, admission.is_again);
  }
  max_running_ = std::max(max_running_, scheduler_.num_running());
  num_steps_ = std::min(scheduler_.repeatable_steps(), most_steps_);
  const Picoseconds duration =
      std::max(num_steps_ > 1 ? run_of_steps(*shape) : step_time_.duration(*shape), Picoseconds{1});
  equal_steps_.clear();
  add_equal_steps(*shape, 0, num_steps_, duration);
  step_begin_ = now;
  state_ = {.running = scheduler_.num_running(),
            .waiting = scheduler_.num_waiting(),
            .used_blocks = static_cast<double>(settings_.num_blocks - 1 - scheduler_.num_free_blocks()),
            .prompt_tokens = shape->num_tokens() - shape->num_decodes};
  is_busy_ = true;
  step_end_ = end_of(now, duration);
  simulation_.schedule_at(step_end_, [this] { finish_step(); });
}

/// Ends with the first step that an arrival could change: with nobody waiting, the one during which it arrives.
Picoseconds EngineProcess::run_of_steps(const StepShape& shape) {
  const auto time_of = [&](std::int64_t steps) {
    return step_time_.decode_run(shape.num_decodes, shape.decode_kv_tokens, steps);
  };
  Picoseconds duration = time_of(num_steps_);
  // Behind others in line nobody is admitted sooner, unless it may go before them.
  if (scheduler_.num_waiting() > 0 && settings_.policy == SchedulingPolicy::fcfs) return duration;
  const std::optional<Picoseconds> next = surroundings_.next_submission(*this);
  if (!next) return duration;
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

/// Halves until the first and the last step are within a thousandth of the mean. @param done  steps of the run before
void EngineProcess::add_equal_steps(const StepShape& shape, std::int64_t done, std::int64_t steps,
                                    Picoseconds duration) {
  const auto time_of = [&](std::int64_t first, std::int64_t count) {
    return step_time_.decode_run(shape.num_decodes, shape.decode_kv_tokens + first * shape.num_decodes, count);
  };
  const Picoseconds mean = duration / steps;
  const auto is_mean = [&](std::int64_t step) {
    const Picoseconds difference = time_of(step, 1) - mean;
    return std::max(difference, -difference) <= mean / 1000;
  };
  if (steps == 1 || (is_mean(done) && is_mean(done + steps - 1))) {
    equal_steps_.push_back({steps, duration});
    return;
  }
  const std::int64_t half = steps / 2;
  const Picoseconds first = time_of(done, half);
  add_equal_steps(shape, done, half, first);
  add_equal_steps(shape, done + half, steps - half, duration - first);
}

/// @param whole  of all steps of the run
void EngineProcess::add_to_series(SeriesState whole) {
  const double blocks = (whole.used_blocks_at_end - whole.used_blocks) / static_cast<double>(num_steps_);  // a step
  const double tokens = (whole.used_tokens_at_end - whole.used_tokens) / static_cast<double>(num_steps_);
  const std::int64_t output = whole.output_tokens / num_steps_;
  Picoseconds begin = step_begin_;
  for (const EqualSteps& equal : equal_steps_) {
    const auto count = static_cast<double>(equal.count);
    whole.used_blocks_at_end = whole.used_blocks + blocks * count;
    whole.used_tokens_at_end = whole.used_tokens + tokens * count;
    whole.output_tokens = output * equal.count;
    series_.add(begin, begin + equal.duration, whole);
    whole.used_blocks = whole.used_blocks_at_end;
    whole.used_tokens = whole.used_tokens_at_end;
    begin += equal.duration;
  }
}

void EngineProcess::finish_step() {
  is_busy_ = false;
  ledger_.on_steps(step_begin_, equal_steps_);
  for (const Advance& advance : scheduler_.finish_step(num_steps_)) {
    state_.used_tokens += static_cast<double>(advance.context_tokens - num_steps_ + 1);
    state_.used_tokens_at_end += static_cast<double>(advance.context_tokens);
    if (!advance.has_token) continue;
    state_.output_tokens += num_steps_;
    if (ledger_.on_tokens(advance.request)) surroundings_.on_first_token(advance.request);
    if (advance.is_finished) surroundings_.on_finish(*this, advance.request);
  }
  const double used = static_cast<double>(scheduler_.most_used_blocks());
  max_used_share_ = std::max(max_used_share_, used / static_cast<double>(settings_.num_blocks - 1));
  output_tokens_ += state_.output_tokens;
  state_.used_blocks_at_end = used;
  add_to_series(state_);
  surroundings_.on_step(*this);
  wake();
}

}  // namespace kvtide::serving
