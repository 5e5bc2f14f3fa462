#pragma once
// `partition`, `protect` and `positions` of a compression mapping.

#include "config/yaml_value.h"
#include "experiment/setting.h"

namespace kvtide::experiment {

/// Reads the three keys of `compression` into `setting`, whose block_size is known; errors are recorded in the document.
void read_partition(const config::Value& compression, Setting& setting);

}  // namespace kvtide::experiment
