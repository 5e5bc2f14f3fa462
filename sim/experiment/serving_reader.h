#pragma once
// `workload:`, `engine:`, `slo:` and `calibration:` of an experiment file.

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

/// `calibration:`, a line of `kvtide calibrate`; of nothing what changes nothing.
[[nodiscard]] serving::Calibration read_calibration(const config::Value& value);

}  // namespace kvtide::experiment
