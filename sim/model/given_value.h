#pragma once
// transformers writes null for "not set", so an absent key and a null one mean the same.

#include "config/yaml_value.h"

namespace kvtide {

[[nodiscard]] inline bool is_given(const config::Value& value) {
  return value.exists() && !value.is_null();
}

}  // namespace kvtide
