// Events a second of the engine; simpy_reference.py runs the same models in SimPy beside it and prints the ratios.

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "base/testing/allocation_count.h"
#include "engine/event_queue.h"
#include "engine/reference_models.h"
#include "engine/simulation.h"

namespace {

using kvtide::Picoseconds;
using kvtide::engine::reference::Outcome;

/// Runs `model` once an iteration and reports its SimPy-equivalent events a second and its figures.
template <class Model>
void measure(benchmark::State& state, Model model) {
  Outcome outcome;
  const kvtide::AllocationCount allocations;
  for (auto _ : state) outcome = model();
  const std::int64_t num_events = static_cast<std::int64_t>(outcome.num_events) * state.iterations();
  allocations.report(state, num_events);
  state.SetItemsProcessed(num_events);
  // A counter is a double, exact to 2^53: the check sum goes in two halves.
  state.counters["end_ps"] = static_cast<double>(outcome.end_ps);
  state.counters["check_high"] = static_cast<double>(outcome.check >> 32);
  state.counters["check_low"] = static_cast<double>(outcome.check & 0xFFFFFFFFU);
  state.counters["events"] = static_cast<double>(outcome.num_events);
}

// The sizes are those of simpy_reference.py.
void engine_timeouts(benchmark::State& state) {
  const auto num_processes = static_cast<int>(state.range(0));
  measure(state, [&] { return kvtide::engine::reference::run_timeouts(num_processes, 200'000 / num_processes); });
}
BENCHMARK(engine_timeouts)->Arg(10)->Arg(100)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

void engine_callbacks(benchmark::State& state) {
  const auto num_chains = static_cast<int>(state.range(0));
  measure(state, [&] { return kvtide::engine::reference::run_callbacks(num_chains, 200'000 / num_chains); });
}
BENCHMARK(engine_callbacks)->Arg(10)->Arg(100)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

void engine_resource(benchmark::State& state) {
  measure(state, [] { return kvtide::engine::reference::run_resource(64, 4, 1000); });
}
BENCHMARK(engine_resource)->Unit(benchmark::kMillisecond);

void engine_store(benchmark::State& state) {
  measure(state, [] { return kvtide::engine::reference::run_store(16, 8, 4000); });
}
BENCHMARK(engine_store)->Unit(benchmark::kMillisecond);

kvtide::engine::Process start_and_end(kvtide::engine::Simulation& simulation) {
  co_await simulation.delay(Picoseconds{1});
}

/// Processes started and ended a second, in waves of 100: frame, record and handle made and freed.
void engine_spawn(benchmark::State& state) {
  constexpr int kNumWaves = 100;
  constexpr int kNumProcesses = 100;
  const kvtide::AllocationCount allocations;
  for (auto _ : state) {
    kvtide::engine::Simulation simulation;
    for (int wave = 0; wave < kNumWaves; ++wave) {
      for (int p = 0; p < kNumProcesses; ++p) simulation.start(start_and_end(simulation));
      simulation.run();
    }
  }
  allocations.report(state, kNumWaves * kNumProcesses * state.iterations());
  state.SetItemsProcessed(kNumWaves * kNumProcesses * state.iterations());
}
BENCHMARK(engine_spawn)->Unit(benchmark::kMillisecond);

/// Calls scheduled and cancelled a second, the use of guards that mostly never fire.
void engine_cancel(benchmark::State& state) {
  constexpr int kNumCalls = 100'000;
  const kvtide::AllocationCount allocations;
  for (auto _ : state) {
    kvtide::engine::Simulation simulation;
    for (int call = 0; call < kNumCalls; ++call) {
      simulation.schedule_in(Picoseconds{1'000'000 + call}, [] {}).cancel();
    }
    simulation.run();
  }
  allocations.report(state, kNumCalls * state.iterations());
  state.SetItemsProcessed(kNumCalls * state.iterations());
}
BENCHMARK(engine_cancel)->Unit(benchmark::kMillisecond);

}  // namespace
