#pragma once
// Rows of measured kernel times and the work that each describes. Files are <gpu>_<operation>.csv in the layout of the
// aiconfigurator-core tables (NVIDIA, Apache-2.0); the measured column latency_us is never part of a prediction.

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "config/csv_table.h"
#include "gpu/gpu.h"

namespace kvtide::gpu {

/// "runs/h100_sxm_decode_attn.csv" -> {"h100_sxm", "decode_attn"}.
struct MeasuredFile {
  std::string gpu;
  std::string operation;
};

/// Operations that a file name can end with.
[[nodiscard]] const std::vector<std::string>& measured_operations();

/// @throws InputError listing the operations when the name ends with none
[[nodiscard]] MeasuredFile parse_measured_file_name(const std::string& path);

/// The bytes of a row, and what the model says; no time where the model cannot represent the row.
struct RowPrediction {
  double bytes = 0;  ///< decode attention: K and V read, Q read, O written; GEMM: both operands and the result
  std::optional<double> microseconds;
  /// Of two measured times: may be zero or negative, so only its absolute error says something.
  bool is_difference = false;
};

/// Rows of one operation each, as predict_row.
[[nodiscard]] RowPrediction predict_prefill_row(Gpu& gpu, const config::CsvTable& table, std::size_t row);
[[nodiscard]] RowPrediction predict_gemm_row(Gpu& gpu, const config::CsvTable& table, std::size_t row);
[[nodiscard]] RowPrediction predict_quantize_row(Gpu& gpu, const config::CsvTable& table, std::size_t row);

/// Rows replay one CUDA graph over the same buffers: KV below the capacity of L2 is served warm.
/// @throws InputError  wrong cells; never for a row that the model does not know
[[nodiscard]] RowPrediction predict_row(Gpu& gpu, const std::string& operation, const config::CsvTable& table,
                                        std::size_t row);

/// The work of a decode_attn row; nothing where the model cannot represent it. @throws InputError on wrong cells
[[nodiscard]] std::optional<DecodeAttentionWork> decode_attention_row(const GpuProfile& profile,
                                                                      const config::CsvTable& table, std::size_t row);

/// The same for a mla_decode row.
[[nodiscard]] std::optional<DecodeAttentionWork> mla_decode_row(const GpuProfile& profile,
                                                                const config::CsvTable& table, std::size_t row);

}  // namespace kvtide::gpu
