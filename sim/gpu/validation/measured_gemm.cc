// <gpu>_gemm.csv: one linear layer. Rows of 8 bit and less include the quantization of the activations.
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

}  // namespace

RowPrediction predict_gemm_row(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  GemmWork work{.m = table.integer(row, "m", 1, kMaxCount),
                .n = table.integer(row, "n", 1, kMaxCount),
                .k = table.integer(row, "k", 1, kMaxCount)};
  RowPrediction prediction;
  if (!from_string(table.text(row, "dtype"), work.format)) return prediction;
  work.kernel = table.text(row, "framework");
  work.from_host = true;  // only kernels whose rows show the host's time have one
  const double m = static_cast<double>(work.m), n = static_cast<double>(work.n), k = static_cast<double>(work.k);
  prediction.bytes = m * k * activation_bytes(work.format) + k * n * weight_bytes(work.format) + 2 * m * n;
  // The collector rotates copies of the weights, so that they come from device memory, except in these rows of vLLM.
  const bool is_warm =
      work.kernel == "vllm" && (work.format == OperandFormat::fp8_block || work.format == OperandFormat::nvfp4);
  prediction.microseconds = to_microseconds(gpu.gemm(work, is_warm ? L2State::warm : L2State::cold).duration);
  return prediction;
}

}  // namespace kvtide::gpu
