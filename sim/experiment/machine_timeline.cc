#include "experiment/machine_timeline.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "experiment/served_decode.h"
#include "gpu/chrome_trace.h"

namespace kvtide::experiment {

void write_machine_timeline(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                            const kv::RecordedScores& scores, std::ostream& out) {
  static constexpr const char* kStreams[] = {"main stream", "compression stream", "shared-expert stream"};
  gpu::ChromeTrace trace(out);
  std::set<std::pair<std::int64_t, std::int64_t>> named;
  double step_index = 0;
  (void)step_through(
      run, setting, model, gpu, scores, num_decode_steps(setting, run.setting.schedule, run.setting.context_tokens),
      [&](const gpu::Iteration& iteration, Picoseconds start) {
        for (const gpu::ScheduledKernel& kernel : iteration.schedule.kernels) {
          if (named.insert({kernel.stage, -1}).second)
            trace.name_process(kernel.stage, fmt::format("{} stage {}", gpu.profile().name, kernel.stage));
          if (named.insert({kernel.stage, kernel.stream}).second)
            trace.name_thread(kernel.stage, kernel.stream, kStreams[kernel.stream]);
          trace.add({.name = kernel.kernel_class,
                     .category = kernel.slack.count() == 0 ? "critical" : "slack",
                     .start = start + kernel.start,
                     .duration = kernel.duration,
                     .process = kernel.stage,
                     .thread = kernel.stream,
                     .arguments = {{"step", step_index}, {"slack_us", to_microseconds(kernel.slack)}}});
        }
        ++step_index;
      });
  trace.close();
}

}  // namespace kvtide::experiment
