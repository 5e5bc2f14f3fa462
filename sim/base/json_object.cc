#include "base/json_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/quoted_text.h"

namespace kvtide {

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_figure(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

std::string json_list(const std::vector<std::string>& elements) {
  return fmt::format("[{}]", fmt::join(elements, ", "));
}

std::string json_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(texts.size());
  for (const std::string& text : texts) quoted.push_back(quoted_text(text));
  return json_list(quoted);
}

JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
  return raw(name, quoted_text(value));
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ", ";
  members_ += quoted_text(name) + ": ";
  members_ += json;
  return *this;
}

}  // namespace kvtide
