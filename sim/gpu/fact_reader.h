#pragma once
// Values of hardware files: each is written {value: "3.35 TB/s", source: "..."}, and one without a source is refused.

#include <string>
#include <string_view>
#include <vector>

#include "config/yaml_value.h"
#include "gpu/attention_kernel.h"

namespace kvtide::gpu {

/// Reads `key: {value: ..., source: ...}` below a map and remembers each as a fact.
class FactReader {
  using Value = config::Value;

 public:
  /// @param facts  outlives this object
  FactReader(Value map, std::vector<ProfileFact>& facts) : map_(std::move(map)), facts_(&facts) {}

  [[nodiscard]] double quantity(std::string_view key, const config::QuantityRule& rule) {
    return entry(key).as_quantity(rule);
  }
  [[nodiscard]] double number(std::string_view key, double min, double max) {
    return entry(key).as_number({.fallback = {}, .min = min, .max = max});
  }
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) {
    return entry(key).as_integer({.fallback = {}, .min = min, .max = max});
  }
  [[nodiscard]] std::string choice(std::string_view key, const std::vector<std::string>& allowed) {
    return entry(key).as_choice(allowed);
  }
  [[nodiscard]] std::string text(std::string_view key) { return entry(key).as_string(); }
  [[nodiscard]] Value raw(std::string_view key) const { return map_.at(key); }

 private:
  Value entry(std::string_view key) {
    const Value fact = map_.at(key);
    Value value = fact.at("value");
    const Value source = fact.at("source");
    const std::string source_text = source.as_string();
    if (source.exists() && source_text.empty()) source.error("a value without a source is not allowed");
    if (value.exists()) facts_->push_back({fact.path(), value.text(), source_text});
    return value;
  }

  Value map_;
  std::vector<ProfileFact>* facts_;
};

inline constexpr double kMaxSeconds = 1;  // no cost of one kernel is longer; keeps every product of the model finite

/// A duration of 0 to kMaxSeconds.
inline config::QuantityRule seconds() {
  return {.dimension = Dimension::time, .fallback = {}, .min = 0, .max = kMaxSeconds};
}
inline config::QuantityRule positive_quantity(Dimension dimension, double max) {
  return {.dimension = dimension, .fallback = {}, .min = 1, .max = max};
}

}  // namespace kvtide::gpu
