#pragma once
// Published serving figures that do not need a request trace, predicted: preemption counts of one saturated engine at several
// admission watermarks, and what a quantized KV cache did to capacity and throughput. Files as in the e2e data.

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide::serving {

struct PreemptionRow {
  double watermark = 0;
  double measured = 0;
  double mean = 0, low = 0, high = 0;  ///< predicted, over the seeds
  /// Inside the predicted range widened by 15 % on both sides.
  [[nodiscard]] bool is_inside() const { return measured >= 0.85 * low && measured <= 1.15 * high; }
};

/// preemption_watermark.csv: Qwen2.5-7B on a GB200, 128 clients in a closed loop. @throws InputError
[[nodiscard]] std::vector<PreemptionRow> predict_preemptions(const std::string& path, std::int64_t seeds = 10);

struct QuantizedRow {
  std::string source, model, gpu, method;
  std::int64_t input_tokens = 0, concurrency = 0;
  std::string not_predicted{};  ///< why, where a setting is not stated
  std::string recipe{};         ///< of the kernels, in words
  double capacity_measured = 0, capacity_predicted = 0;
  double throughput_measured = 0, throughput_predicted = 0;  ///< quantized / 16 bit
  [[nodiscard]] bool is_on_the_right_side() const { return (throughput_measured < 1) == (throughput_predicted < 1); }
};

/// kv_quant_serving.csv: the method's bytes give the capacity, the work of its kernels the throughput of a closed loop at the stated
/// concurrency. @throws InputError
[[nodiscard]] std::vector<QuantizedRow> predict_quantized(const std::string& path);

}  // namespace kvtide::serving
