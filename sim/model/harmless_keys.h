#pragma once
// Keys of a config.json that change neither what is cached nor how many weights there are.

#include "config/yaml_value.h"

namespace kvtide {

/// Marks such keys as known. What stays unknown has a name that sounds like geometry ("num_", "head", "window", "cache"
/// ...), or is within a typing error of a key that is read; finish() then refuses the file and names it.
void accept_harmless_keys(const config::Value& text);

}  // namespace kvtide
