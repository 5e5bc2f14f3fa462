#include "gpu/decode_timeline.h"

#include <algorithm>
#include <utility>

namespace kvtide::gpu {

DecodeStepRecord step_record(const Iteration& iteration, std::int64_t step_index, Picoseconds start) {
  DecodeStepRecord record{.step_index = step_index,
                          .start = start,
                          .duration = iteration.duration,
                          .compress_duration = iteration.compress_duration,
                          .attention_duration = Picoseconds{0},
                          .collective_duration = iteration.collective_duration,
                          .hbm_bytes = iteration.hbm_bytes};
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == "attention") record.attention_duration = sums.duration;
  }
  return record;
}

engine::Process decode_steps(engine::Simulation& simulation, Gpu& gpu, DecoderShape shape, std::int64_t num_steps,
                             StepWork work_of, std::vector<DecodeStepRecord>& records, StepObserver observe) {
  for (std::int64_t step_index = 0; step_index < num_steps; ++step_index) {
    const Iteration iteration = time_iteration(gpu, shape, work_of(step_index));
    const DecodeStepRecord record = step_record(iteration, step_index, simulation.now());
    co_await simulation.delay(iteration.duration, engine::Priority::completion);
    records.push_back(record);
    if (observe) observe(iteration, record.start);
  }
}

std::vector<DecodeStepRecord> decode_timeline(Gpu& gpu, const DecoderShape& shape, std::int64_t num_steps,
                                              const StepWork& work_of, const StepObserver& observe) {
  engine::Simulation simulation;
  std::vector<DecodeStepRecord> records;
  simulation.start(decode_steps(simulation, gpu, shape, num_steps, work_of, records, observe));
  simulation.run();
  return records;
}

}  // namespace kvtide::gpu
