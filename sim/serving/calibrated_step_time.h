#pragma once
// Step times and first tokens of somebody's own server, by the few constants that `kvtide calibrate` fits to its benchmark runs:
//   step_factor   every step takes that many times what the modeled GPU needs (clocks, drivers, another kernel version)
//   step_gap      the device idles that long between steps (host, tokenizer, sampler in Python)
//   ttft_offset   a client waits that much longer for its first token (network, queueing outside of the engine)

#include <cstdint>

#include "serving/request_ledger.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

struct Calibration {
  double step_factor = 1;
  double step_gap = 0;     ///< s
  double ttft_offset = 0;  ///< s
  bool operator==(const Calibration&) const = default;
  /// Every token of the request that much later, as its client sees it.
  [[nodiscard]] RequestTimes seen_by_client(RequestTimes times) const;
};

/// Step times of another, corrected. Example: a step of 10 ms, factor 1.1, gap 0.5 ms: 11.5 ms.
class CalibratedStepTime : public StepTime {
 public:
  /// @param base  outlives this object
  CalibratedStepTime(StepTime& base, const Calibration& calibration) : base_(base), calibration_(calibration) {}
  [[nodiscard]] Picoseconds duration(const StepShape& shape) override;
  [[nodiscard]] Picoseconds decode_run(std::int64_t num_decodes, std::int64_t kv_tokens, std::int64_t steps) override;

 private:
  StepTime& base_;
  Calibration calibration_;
};

}  // namespace kvtide::serving
