#pragma once
// Rotation of a config.json: rope_theta and rope_scaling, or the newer rope_parameters (flat, or one per layer type).

#include "config/yaml_value.h"
#include "model/model_class.h"
#include "model/rope.h"

namespace kvtide {

struct RopePair {
  Rope full;
  Rope sliding;
};

/// @param head_dim  channels of a head that may rotate (latent attention: its rotary key)
/// @return full and sliding layers' rotation (equal where the file makes no difference); errors go to the document
[[nodiscard]] RopePair read_rope(const config::Value& text, const ModelClass& model_class, std::int64_t head_dim);

}  // namespace kvtide
