#include "serving/serving_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/simulation.h"
#include "serving/engine_process.h"
#include "serving/simulated_time.h"

namespace kvtide::serving {
namespace {

void validate(const Fleet& fleet) {
  if (fleet.replicas < 1 || fleet.prefill_replicas < 0) {
    throw InputError(fmt::format("fleet: {} replicas and {} for prefill: expected at least 1 and 0", fleet.replicas,
                                 fleet.prefill_replicas));
  }
  if (fleet.prefill_replicas > 0 && !(fleet.transfer_bandwidth > 0)) {
    throw InputError("fleet: prefill apart from decode needs the bandwidth of the link between them");
  }
}

/// Router, links and clock around the engines.
class Front : public EngineProcess::Surroundings {
 public:
  Front(RequestSource& source, const Fleet& fleet, StepTime& step_time, const ServeOptions& options)
      : source_(source),
        fleet_(fleet),
        options_(options),
        report_([this](const RequestTimes& times) {
          if (options_.on_request) {
            options_.on_request(times);
          } else {
            outcome_.requests.push_back(times);
          }
        }),
        ledger_(report_, options.most_gaps_kept) {
    const auto add = [&](std::vector<std::unique_ptr<EngineProcess>>& engines, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        engines.push_back(std::make_unique<EngineProcess>(simulation_, *this, ledger_, outcome_.series, fleet.engine,
                                                          step_time, options.shared_block_tokens,
                                                          options.max_steps_at_once));
      }
    };
    add(prefill_, fleet.prefill_replicas);
    add(decode_, fleet.replicas);
    link_free_.resize(prefill_.size());
    schedule_arrival();
  }

  ServingOutcome run() {
    simulation_.run();
    for (const auto* engines : {&prefill_, &decode_}) {
      for (const std::unique_ptr<EngineProcess>& engine : *engines) {
        const SchedulerCounters& counters = engine->counters();
        outcome_.counters.preemptions += counters.preemptions;
        outcome_.counters.lost_tokens += counters.lost_tokens;
        outcome_.counters.prompt_blocks += counters.prompt_blocks;
        outcome_.counters.hit_blocks += counters.hit_blocks;
        outcome_.counters.steps += counters.steps;
        outcome_.counters.emptied_blocks += counters.emptied_blocks;
        outcome_.counters.swaps += counters.swaps;
        outcome_.max_running = std::max(outcome_.max_running, engine->max_running());
        outcome_.max_used_share = std::max(outcome_.max_used_share, engine->max_used_share());
        outcome_.output_tokens += engine->output_tokens();
      }
    }
    outcome_.num_requests = static_cast<std::int64_t>(ledger_.num_arrived());
    outcome_.gaps = ledger_.gaps();
    outcome_.kept_gaps = std::move(ledger_.kept_gaps());
    std::ranges::sort(outcome_.kept_gaps, {}, [](const TokenGap& gap) { return std::pair(gap.request, gap.token); });
    return std::move(outcome_);
  }

  /// An arrival; where users wait for answers, another engine's step, which may bring one; for a decode engine beside prefill ones
  /// also a cache on its way, or a prompt that may be finished first.
  [[nodiscard]] std::optional<Picoseconds> next_submission(const EngineProcess& engine) const override {
    std::optional<Picoseconds> next = source_.next_arrival();
    const auto consider = [&](std::optional<Picoseconds> time) {
      if (time && (!next || *time < *next)) next = time;
    };
    const auto consider_others = [&](const Engines& engines) {
      for (const std::unique_ptr<EngineProcess>& one : engines) {
        if (one.get() != &engine) consider(one->busy_until());
      }
    };
    const bool reacts = source_.reacts_to_finishes();
    const bool takes_caches = !prefill_.empty() && !is_prefill(engine);
    if (reacts) consider_others(decode_);
    if (reacts || takes_caches) consider_others(prefill_);
    if (takes_caches && !landings_.empty()) consider(*landings_.begin());
    return next;
  }

  void on_first_token(std::size_t request) override { ask(request, false); }

  void on_finish(EngineProcess& engine, std::size_t request) override {
    const auto rest = to_decode_.find(request);
    if (rest != to_decode_.end()) {
      send(engine, request, std::move(rest->second));
      to_decode_.erase(rest);
      return;
    }
    const Picoseconds now = simulation_.now();
    ledger_.on_finish(request, now);
    has_finished_ = true;
    outcome_.makespan = now - ledger_.first_arrival();
    source_.on_finish(now);
    ask(request, true);
  }

  void on_step(EngineProcess& /*engine*/) override {
    if (!has_finished_) return;
    has_finished_ = false;
    ledger_.report_finished();
    schedule_arrival();
  }

  [[nodiscard]] bool is_over() const override { return outcome_.is_stopped; }

 private:
  using Engines = std::vector<std::unique_ptr<EngineProcess>>;

  [[nodiscard]] bool is_prefill(const EngineProcess& engine) const {
    return std::ranges::any_of(prefill_, [&](const auto& one) { return one.get() == &engine; });
  }
  void ask(std::size_t request, bool is_last) {
    if (options_.stops_at && options_.stops_at(ledger_.times(request), is_last)) outcome_.is_stopped = true;
  }

  /// Only the next arrival is pending: memory does not grow with the trace. A user who thinks shortly may come before one who has
  /// been thinking for long; the later event then finds that it is no longer the pending one.
  void schedule_arrival() {
    const std::optional<Picoseconds> next = source_.next_arrival();
    if (!next || outcome_.is_stopped) return;
    const Picoseconds at = std::max(*next, simulation_.now());
    if (pending_arrival_ && *pending_arrival_ <= at) return;
    pending_arrival_ = at;
    simulation_.schedule_at(at, [this] {
      const Picoseconds now = simulation_.now();
      if (pending_arrival_ != now) return;
      pending_arrival_.reset();
      Engines& engines = prefill_.empty() ? decode_ : prefill_;
      for (auto next = source_.next_arrival(); next && *next <= now; next = source_.next_arrival()) {
        arrive(engines, *next);
      }
      schedule_arrival();
      for (const std::unique_ptr<EngineProcess>& engine : engines) engine->wake();
    });
  }

  void arrive(Engines& engines, Picoseconds arrival) {
    Request request = source_.take();
    const std::size_t id = ledger_.arrive(arrival, request);
    if (!prefill_.empty() && request.output_tokens > 1) {
      Request rest{.arrival = arrival,
                   .input_tokens = request.input_tokens,
                   .output_tokens = request.output_tokens,
                   .shared_blocks = {},
                   .line = request.line,
                   .priority = request.priority,
                   .is_transferred = true};
      to_decode_.emplace(id, std::move(rest));
      request.output_tokens = 1;
    }
    choose(engines, next_for_arrivals_).submit(id, std::move(request));
  }

  /// @param turn  whose it is, of round robin
  EngineProcess& choose(Engines& engines, std::size_t& turn) {
    if (fleet_.routing == Routing::round_robin) return *engines[turn++ % engines.size()];
    return **std::ranges::min_element(engines, {}, [](const auto& engine) { return engine->num_in_flight(); });
  }

  /// Over the engine's link, once it is free.
  void send(const EngineProcess& from, std::size_t request, Request rest) {
    const auto place = static_cast<std::size_t>(
        std::ranges::find_if(prefill_, [&](const auto& one) { return one.get() == &from; }) - prefill_.begin());
    const CacheGrowth& growth = fleet_.engine.growth;
    const std::int64_t entries = growth.held(rest.input_tokens) + growth.window_entries(rest.input_tokens);
    outcome_.transferred_tokens += entries;
    const double seconds = static_cast<double>(entries) * fleet_.bytes_per_token / fleet_.transfer_bandwidth;
    link_free_[place] = end_of(std::max(link_free_[place], simulation_.now()), from_seconds(seconds));
    const Picoseconds landing = end_of(link_free_[place], from_seconds(fleet_.transfer_latency));
    landings_.insert(landing);
    simulation_.schedule_at(landing, [this, request, landing, rest = std::move(rest)]() mutable {
      landings_.erase(landings_.find(landing));
      EngineProcess& engine = choose(decode_, next_for_decoding_);
      engine.submit(request, std::move(rest));
      engine.wake();
    });
  }

  RequestSource& source_;
  const Fleet& fleet_;
  const ServeOptions& options_;
  engine::Simulation simulation_;
  ServingOutcome outcome_;
  RequestLedger::Report report_;
  RequestLedger ledger_;
  Engines prefill_, decode_;
  std::size_t next_for_arrivals_ = 0, next_for_decoding_ = 0;
  std::unordered_map<std::size_t, Request> to_decode_;  // what is left once the prompt is computed; looked up only
  std::vector<Picoseconds> link_free_;                  // [prefill engine]
  std::multiset<Picoseconds> landings_;                 // of caches under way
  std::optional<Picoseconds> pending_arrival_;
  bool has_finished_ = false;
};

}  // namespace

ServingOutcome serve(RequestSource& source, const Fleet& fleet, StepTime& step_time, const ServeOptions& options) {
  validate(fleet);
  Front front(source, fleet, step_time, options);
  return front.run();
}

ServingOutcome serve(RequestSource& source, const EngineSettings& settings, StepTime& step_time,
                     const ServeOptions& options) {
  return serve(source, Fleet{.engine = settings}, step_time, options);
}

ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time) {
  TraceSource source(trace);
  return serve(source, settings, step_time, {.shared_block_tokens = trace.shared_block_tokens});
}

}  // namespace kvtide::serving
