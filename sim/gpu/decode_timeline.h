#pragma once
// Decode steps one after another on the event engine. A step in which blocks became eligible also runs their
// compression, so the step time shows a spike every block_size steps.

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/simulation.h"
#include "gpu/iteration_graph.h"

namespace kvtide::gpu {

struct DecodeStepRecord {
  std::int64_t step_index = 0;
  Picoseconds start{0};
  Picoseconds duration{0};           ///< compression included
  Picoseconds compress_duration{0};  ///< 0 when no block became eligible
  Picoseconds attention_duration{0};
  Picoseconds collective_duration{0};
  Bytes hbm_bytes = 0;
};

[[nodiscard]] DecodeStepRecord step_record(const Iteration& iteration, std::int64_t step_index, Picoseconds start);

/// Asked at the start of each step: what is in the cache by now, and which blocks became eligible since the last step.
using StepWork = std::function<IterationWork(std::int64_t step_index)>;

/// Shown every step as it ends, with the time at which it began.
using StepObserver = std::function<void(const Iteration& iteration, Picoseconds start)>;

/// The process: `num_steps` steps from now on, one record each. `simulation`, `gpu` and `records` must outlive it.
[[nodiscard]] engine::Process decode_steps(engine::Simulation& simulation, Gpu& gpu, DecoderShape shape,
                                           std::int64_t num_steps, StepWork work_of,
                                           std::vector<DecodeStepRecord>& records, StepObserver observe = {});

/// The same alone in a simulation of its own.
[[nodiscard]] std::vector<DecodeStepRecord> decode_timeline(Gpu& gpu, const DecoderShape& shape, std::int64_t num_steps,
                                                            const StepWork& work_of, const StepObserver& observe = {});

}  // namespace kvtide::gpu
