#pragma once
// transformers writes null for "not set": such a key is as good as absent, but for the two nulls that say something of their own
// (README.md).

#include "config/yaml_value.h"

namespace kvtide {

[[nodiscard]] inline bool is_given(const config::Value& value) {
  return value.exists() && !value.is_null();
}

}  // namespace kvtide
