#pragma once
// Three small models that exist twice, here and for SimPy in simpy_reference.py, so that speed and results can be
// compared. Both sides draw their delays from the same table and return the same figures, to the picosecond.

#include <cstdint>

namespace kvtide::engine::reference {

/// What a model says about its run.
struct Outcome {
  std::int64_t end_ps = 0;  ///< time of the last event
  std::uint64_t check = 0;  ///< sum modulo 2^64 of the times named at each model, in ps
  /// Events SimPy spends on this model; the same number on both sides, so that rates compare.
  std::uint64_t num_events = 0;
  bool operator==(const Outcome&) const = default;
};

/// `num_processes` processes delay `num_rounds` times each. check: the times at which the processes end.
/// Events: one a round.
[[nodiscard]] Outcome run_timeouts(int num_processes, int num_rounds);

/// `num_processes` share a resource of `capacity`: request, hold, release, pause, `num_rounds` times. check: the times
/// spent in line. Events: four a round (request granted, hold over, release done, pause over).
[[nodiscard]] Outcome run_resource(int num_processes, int capacity, int num_rounds);

/// As many producers as consumers at a store of `capacity`, `num_rounds` items each. check: item number times time of
/// each get. Events: four an item (put done, producer's pause over, get done, consumer's pause over).
[[nodiscard]] Outcome run_store(int num_producers, int capacity, int num_rounds);

/// `num_calls` callbacks of which each schedules the next, in `num_chains` chains: timeouts without processes.
[[nodiscard]] Outcome run_callbacks(int num_chains, int num_rounds);

}  // namespace kvtide::engine::reference
