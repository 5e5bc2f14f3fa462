#pragma once
// One JSON object (RFC 8259), member by member: what every `--json` prints.

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide {

/// JSON has no NaN and no infinity: null stands for them. Other numbers in the shortest text that reads back the same.
/// Example: 0.5 -> 0.5, NaN -> null.
[[nodiscard]] std::string json_number(double value);
/// The same with six significant digits, for figures that a model gives.
[[nodiscard]] std::string json_figure(double value);

/// Example: {"1", "null"} -> [1, null].
/// @param elements  JSON texts
[[nodiscard]] std::string json_list(const std::vector<std::string>& elements);
/// Example: {"a", "b"} -> ["a", "b"].
[[nodiscard]] std::string json_texts(const std::vector<std::string>& texts);

/// `"name": value` members in the order in which they are added.
/// Example: JsonObject().text("gpu", "h100").number("sms", 132).str() -> {"gpu": "h100", "sms": 132}
class JsonObject {
 public:
  JsonObject& text(std::string_view name, std::string_view value);
  JsonObject& number(std::string_view name, double value) { return raw(name, json_number(value)); }
  /// Whole numbers are printed whole, however large.
  JsonObject& number(std::string_view name, std::integral auto value) { return raw(name, std::to_string(value)); }
  JsonObject& flag(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  /// 0 stands for "none".
  JsonObject& number_or_null(std::string_view name, std::integral auto value) {
    return raw(name, value == 0 ? "null" : std::to_string(value));
  }
  /// @param json  a value as it stands
  JsonObject& raw(std::string_view name, std::string_view json);
  [[nodiscard]] std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace kvtide
