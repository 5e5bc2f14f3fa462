#pragma once
// Mixture-of-experts fields of a config.json, in their several spellings.

#include "config/yaml_value.h"
#include "model/model.h"
#include "model/model_class.h"

namespace kvtide {

/// Fills model.experts; model.num_layers and intermediate_size must be set. A class with experts whose file does not
/// count them leaves the weights unknown.
void read_experts(const config::Value& text, const ModelClass& model_class, Model& model);

}  // namespace kvtide
