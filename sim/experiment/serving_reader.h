#pragma once
// `workload:`, `engine:` and `slo:` of an experiment file.

#include <functional>
#include <optional>
#include <string>

#include "config/yaml_value.h"
#include "experiment/serving_setting.h"

namespace kvtide::experiment {

/// None without a workload. Errors are recorded in the document.
/// @param located  a path as written -> where it lies
[[nodiscard]] std::optional<ServingSetting> read_serving(const config::Value& root,
                                                         const std::function<std::string(const std::string&)>& located);

}  // namespace kvtide::experiment
