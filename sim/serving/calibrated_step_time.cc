#include "serving/calibrated_step_time.h"

#include "serving/simulated_time.h"

namespace kvtide::serving {

RequestTimes Calibration::seen_by_client(RequestTimes times) const {
  times.first_token += from_seconds(ttft_offset);
  times.last_token += from_seconds(ttft_offset);
  return times;
}

Picoseconds CalibratedStepTime::duration(const StepShape& shape) {
  return from_seconds(to_seconds(base_.duration(shape)) * calibration_.step_factor + calibration_.step_gap);
}

Picoseconds CalibratedStepTime::decode_run(std::int64_t num_decodes, std::int64_t kv_tokens, std::int64_t steps) {
  return from_seconds(to_seconds(base_.decode_run(num_decodes, kv_tokens, steps)) * calibration_.step_factor +
                      calibration_.step_gap * static_cast<double>(steps));
}

}  // namespace kvtide::serving
