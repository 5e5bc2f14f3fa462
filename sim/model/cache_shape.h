#pragma once
// Bytes per token of every layer, and equal layers counted together.

#include <vector>

#include "config/yaml_value.h"
#include "model/layer_pattern.h"
#include "model/model.h"

namespace kvtide {

/// Fills model.layers, kind_of_layer and state_elements. The model's heads, widths and latent sizes must be set.
void set_cache_shape(const config::Value& text, const ModelClass& model_class, const std::vector<LayerSpec>& specs,
                     Model& model);

}  // namespace kvtide
