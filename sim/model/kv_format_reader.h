#pragma once
// How a checkpoint says its KV cache is stored: a word ("FP8"), an object ({num_bits: 8, type: float}), null, or a
// separate hf_quant_config.json. The weights' own format says nothing about the cache.

#include <optional>
#include <string>

#include "config/yaml_value.h"
#include "model/model.h"

namespace kvtide {

/// @param places  maps that may hold kv_cache_scheme, kv_cache_quant_algo or a quantization_config with one of them;
///   two that disagree are an error
[[nodiscard]] KvFormat read_kv_format(const std::vector<config::Value>& places);

}  // namespace kvtide
