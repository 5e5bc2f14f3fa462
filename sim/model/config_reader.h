#pragma once
// A config.json as Hugging Face models publish it -> Model.

#include <optional>
#include <string>

#include "config/yaml_value.h"
#include "model/model.h"

namespace kvtide {

/// Errors are recorded in the documents; the Model is meaningful only where there are none.
/// @param quant_file  root of a hf_quant_config.json, if there is one
[[nodiscard]] Model read_config(const config::Value& root, const std::optional<config::Value>& quant_file,
                                const std::string& name);

}  // namespace kvtide
