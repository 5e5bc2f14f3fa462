#pragma once
// Rows of the attention operations other than plain decode attention; one function an operation, called by predict_row.

#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {

/// mla_decode: the latent attention kernel alone, L2 warm. Bytes: latent rows, queries (576 wide) and outputs (512 wide).
[[nodiscard]] RowPrediction predict_mla_decode(Gpu& gpu, const config::CsvTable& table, std::size_t row);

/// compressed_decode: a whole module over sparse or compressed KV. Bytes: weights, index keys and attended rows.
[[nodiscard]] RowPrediction predict_compressed_decode(Gpu& gpu, const config::CsvTable& table, std::size_t row);

}  // namespace kvtide::gpu
