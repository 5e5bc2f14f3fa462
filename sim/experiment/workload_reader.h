#pragma once
// `workload:` of an experiment file: whose requests, what stands in front of them, where their facts lie.

#include <functional>
#include <string>

#include "config/yaml_value.h"
#include "experiment/serving_setting.h"

namespace kvtide::experiment {

/// Errors are recorded in the document. @param located  a path as written -> where it lies
void read_workload(const config::Value& value, ServingSetting& setting,
                   const std::function<std::string(const std::string&)>& located);

/// What of the workload was added to the format later, for the run's key; empty where nothing of it is used.
[[nodiscard]] std::string workload_text(const ServingSetting& setting);

}  // namespace kvtide::experiment
