// <gpu>_quantize.csv. scale_matrix is a static cast; computescale is what a dynamic cast costs more than a static one, so a
// difference of two measurements: near zero, sometimes below it.
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

}  // namespace

RowPrediction predict_quantize_row(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  QuantizeWork work{.num_rows = table.integer(row, "m", 1, kMaxCount),
                    .row_size = table.integer(row, "k", 1, kMaxCount)};
  const bool is_cast = table.text(row, "op") == "scale_matrix";
  work.step = is_cast ? QuantizeStep::cast : QuantizeStep::find_scale;
  work.kernel = table.text(row, "framework");
  RowPrediction prediction;
  prediction.bytes = (is_cast ? 3.0 : 2.0) * static_cast<double>(work.num_rows) * static_cast<double>(work.row_size);
  prediction.is_difference = !is_cast;
  if (table.text(row, "quant_dtype") != "fp8") return prediction;
  KernelTime time = gpu.quantize(work);
  // vLLM's dynamic cast is one kernel: what it costs more is without launch.
  if (!is_cast && work.kernel == "vllm") time.duration -= from_seconds(gpu.profile().graph_launch_latency);
  prediction.microseconds = to_microseconds(time.duration);
  return prediction;
}

}  // namespace kvtide::gpu
