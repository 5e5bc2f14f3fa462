#pragma once
// Rows of measured collectives (<gpu>_comm.csv): lib, kernel, op_name, dtype, num_gpus, message_size in ELEMENTS.

#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {

/// bytes: of the message. No time for an operation or library that the model does not know.
/// @throws InputError  wrong cells
[[nodiscard]] RowPrediction predict_comm(Gpu& gpu, const config::CsvTable& table, std::size_t row);

}  // namespace kvtide::gpu
