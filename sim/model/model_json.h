#pragma once
// A model as JSON, for scripts (`kvtide show models X --json`).

#include <string>

#include "model/model.h"

namespace kvtide {

/// One object on one line: kv_bytes_per_token, kv_bytes_per_token_growing, layers [{kind, count, k_bytes, v_bytes,
/// window}] and what else the file says. `window` is null where a layer has none; num_parameters is null for classes
/// whose weights are not counted.
[[nodiscard]] std::string model_json(const Model& model);

}  // namespace kvtide
