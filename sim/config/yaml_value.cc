#include "config/yaml_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/data_directory.h"
#include "base/quoted_text.h"
#include "config/yaml_node.h"

namespace kvtide::config {
namespace {

using Node = Value::Node;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Length of the number at the start of `text`, 0 when there is none: JSON's (RFC 8259 section 6), so no sign but '-', no
/// leading zero and digits behind a point, or YAML's .5 without digits before it. `is_integer` tells whether it had neither
/// fraction nor exponent.
std::size_t number_length(std::string_view text, bool& is_integer) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - begin;
  };
  is_integer = true;
  if (i < text.size() && text[i] == '-') ++i;
  const std::size_t first = i;
  const std::size_t num_digits = digits();
  const bool has_point = i < text.size() && text[i] == '.';
  if ((num_digits == 0 && !has_point) || (num_digits > 1 && text[first] == '0')) return 0;
  if (has_point) {
    is_integer = false;
    ++i;
    if (digits() == 0) return 0;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    is_integer = false;
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return 0;
  }
  return i;
}

bool is_number(std::string_view text, bool& is_integer) {
  const std::size_t length = number_length(text, is_integer);
  return length > 0 && length == text.size();
}

std::string shortened(const std::string& text) {
  std::string clean;
  for (const char c : text.substr(0, 80)) clean += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return text.size() > 80 ? clean + "..." : clean;
}

/// What was found, for "expected ..., got ...".
std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::absent:
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::map:
      return "a mapping";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::scalar:
      break;
  }
  bool is_integer = false;
  if (!node.is_quoted && is_number(node.scalar, is_integer)) return shortened(node.scalar);
  const bool looks_plain = node.is_quoted && is_number(node.scalar, is_integer);
  return fmt::format("\"{}\"{}", shortened(node.scalar), looks_plain ? " (quoted: a text)" : "");
}

template <typename Number>
std::string range_text(Number min, Number max, Number lowest, Number highest, bool min_is_open) {
  if (min <= lowest && max >= highest) return "";
  if (max >= highest) return fmt::format(" {} {}", min_is_open ? ">" : ">=", min);
  if (min <= lowest) return fmt::format(" <= {}", max);
  return min_is_open ? fmt::format(" in ({}, {}]", min, max) : fmt::format(" in {}..{}", min, max);
}

bool needs_quotes(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.front() == '-' || text.front() == '?')
    return true;
  if (text == "~" || text == "null" || text == "Null" || text == "NULL") return true;
  return !std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-' || c == '+' || c == ' ' || c >= 0x80;
  });
}

/// Remembers the question where somebody wants to know them.
void ask(const Node& node, AskedKey key) {
  if (node.owner->records_asked) node.owner->ask(std::move(key));
}

template <typename Number>
std::optional<double> bound(Number value, Number extreme) {
  return value == extreme ? std::nullopt : std::optional(static_cast<double>(value));
}

template <typename Number>
std::string fallback_text(const std::optional<Number>& fallback) {
  return fallback ? fmt::format("{}", *fallback) : "";
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace

std::string Place::text() const {
  return line > 0 ? fmt::format("{}:{}:{}", *file, line, column) : *file;
}

Node::Entry* Node::find(std::string_view key) {
  const auto found_entry = std::ranges::find(entries, key, &Entry::key);
  return found_entry == entries.end() ? nullptr : &*found_entry;
}

std::string flow_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::absent:
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar: {
      bool is_integer = false;
      const bool is_plain_number = !node.is_quoted && is_number(node.scalar, is_integer);
      const bool plain = is_plain_number || (!node.is_quoted && !needs_quotes(node.scalar));
      return plain ? node.scalar : quoted_text(node.scalar);
    }
    case Node::Kind::map: {
      std::vector<std::string> parts;
      for (const Node::Entry& entry : node.entries) {
        parts.push_back(fmt::format("{}: {}", needs_quotes(entry.key) ? quoted_text(entry.key) : entry.key,
                                    flow_text(*entry.value)));
      }
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
    case Node::Kind::list: {
      std::vector<std::string> parts;
      for (const auto& element : node.elements) parts.push_back(flow_text(*element));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
  }
  return "null";
}

bool Value::exists() const {
  return node_->kind != Node::Kind::absent;
}
bool Value::is_null() const {
  return node_->kind == Node::Kind::null;
}
bool Value::is_scalar() const {
  return node_->kind == Node::Kind::scalar;
}
bool Value::is_map() const {
  return node_->kind == Node::Kind::map;
}
bool Value::is_list() const {
  return node_->kind == Node::Kind::list;
}
const std::string& Value::path() const {
  return path_;
}
std::string Value::where() const {
  return node_->place.text();
}
std::string Value::text() const {
  return is_scalar() ? node_->scalar : flow_text(*node_);
}

void Value::error(const std::string& message) const {
  if (node_->is_reported) return;
  node_->owner->record(path_.empty() ? fmt::format("{}: {}", where(), message)
                                     : fmt::format("{}: {}: {}", where(), path_, message));
  node_->is_reported = true;
}

Value Value::at(std::string_view key) const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::map});
  if (node_->kind == Node::Kind::map) {
    if (Node::Entry* entry = node_->find(key)) {
      entry->is_known = true;
      return {entry->value, joined(path_, key)};
    }
    if (std::ranges::find(node_->asked, key) == node_->asked.end()) node_->asked.emplace_back(key);
  } else if (exists() && !is_null()) {
    error(fmt::format("expected a mapping, got {}", found(*node_)));
  }
  auto absent = std::make_shared<Node>();
  absent->place = node_->place;
  absent->owner = node_->owner;
  absent->is_reported = node_->is_reported && node_->kind != Node::Kind::map;
  return {std::move(absent), joined(path_, key)};
}

std::vector<Value> Value::items() const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::list});
  std::vector<Value> values;
  if (!is_list()) {
    if (!exists() || is_null()) {
      error("missing; expected a list");
    } else {
      error(fmt::format("expected a list, got {}", found(*node_)));
    }
    return values;
  }
  for (std::size_t i = 0; i < node_->elements.size(); ++i) {
    values.emplace_back(node_->elements[i], fmt::format("{}[{}]", path_, i));
  }
  return values;
}

std::vector<std::string> Value::keys() const {
  std::vector<std::string> names;
  if (!is_map()) {
    error(fmt::format("expected a mapping, got {}", found(*node_)));
    return names;
  }
  for (const Node::Entry& entry : node_->entries) names.push_back(entry.key);
  return names;
}

std::int64_t Value::as_integer(const IntegerRule& rule) const {
  ask(*node_, {.path = path_,
               .kind = AskedKey::Kind::integer,
               .fallback = fallback_text(rule.fallback),
               .min = bound<std::int64_t>(rule.min, INT64_MIN),
               .max = bound<std::int64_t>(rule.max, INT64_MAX)});
  const std::int64_t safe = rule.fallback.value_or(std::clamp<std::int64_t>(0, rule.min, rule.max));
  if (!exists() && rule.fallback) return *rule.fallback;
  bool is_integer = false;
  if (is_scalar() && !node_->is_quoted && is_number(node_->scalar, is_integer) && is_integer) {
    std::int64_t value = 0;
    const auto result = std::from_chars(node_->scalar.data(), node_->scalar.data() + node_->scalar.size(), value);
    if (result.ec == std::errc{} && value >= rule.min && value <= rule.max) return value;
  }
  error(fmt::format("{}expected an integer{}{}", exists() ? "" : "missing; ",
                    range_text<std::int64_t>(rule.min, rule.max, INT64_MIN, INT64_MAX, false),
                    exists() ? fmt::format(", got {}", found(*node_)) : ""));
  return safe;
}

double Value::as_number(const NumberRule& rule) const {
  ask(*node_, {.path = path_,
               .kind = AskedKey::Kind::number,
               .fallback = fallback_text(rule.fallback),
               .min = bound(rule.min, -1e308),
               .max = bound(rule.max, 1e308)});
  if (!exists() && rule.fallback) return *rule.fallback;
  bool is_integer = false;
  if (is_scalar() && !node_->is_quoted && is_number(node_->scalar, is_integer)) {
    double value = 0;
    const auto result = std::from_chars(node_->scalar.data(), node_->scalar.data() + node_->scalar.size(), value);
    const bool above = rule.min_is_open ? value > rule.min : value >= rule.min;
    if (result.ec == std::errc{} && std::isfinite(value) && above && value <= rule.max) return value;
  }
  error(fmt::format("{}expected a number{}{}", exists() ? "" : "missing; ",
                    range_text<double>(rule.min, rule.max, -1e308, 1e308, rule.min_is_open),
                    exists() ? fmt::format(", got {}", found(*node_)) : ""));
  return rule.fallback.value_or(rule.min_is_open ? rule.max : std::clamp(0.0, rule.min, rule.max));
}

double Value::as_quantity(const QuantityRule& rule) const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::quantity});
  if (!exists() && rule.fallback) return *rule.fallback;
  if (is_scalar()) {
    bool is_integer = false;
    const std::string_view text = node_->scalar;
    const std::size_t length = number_length(text, is_integer);
    const std::optional<double> value = length > 0 ? parse_quantity(text, rule.dimension) : std::nullopt;
    if (value && std::isfinite(*value) && *value >= rule.min && *value <= rule.max) return *value;
    if (value) {
      error(fmt::format("expected a quantity{} (in base units), got {}",
                        range_text<double>(rule.min, rule.max, -1e308, 1e308, false), found(*node_)));
      return rule.fallback.value_or(std::clamp(0.0, rule.min, rule.max));
    }
  }
  error(fmt::format("{}expected a number with one of the units {}{}", exists() ? "" : "missing; ",
                    known_units(rule.dimension), exists() ? fmt::format(", got {}", found(*node_)) : ""));
  return rule.fallback.value_or(std::clamp(0.0, rule.min, rule.max));
}

bool Value::as_bool(std::optional<bool> fallback) const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::boolean, .fallback = fallback_text(fallback)});
  if (!exists() && fallback) return *fallback;
  if (is_scalar() && !node_->is_quoted) {
    if (node_->scalar == "true") return true;
    if (node_->scalar == "false") return false;
  }
  error(fmt::format("{}expected true or false{}", exists() ? "" : "missing; ",
                    exists() ? fmt::format(", got {}", found(*node_)) : ""));
  return fallback.value_or(false);
}

std::string Value::as_string(std::optional<std::string> fallback) const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::text, .fallback = fallback.value_or("")});
  if (!exists() && fallback) return *fallback;
  if (is_scalar()) return node_->scalar;
  error(fmt::format("{}expected a text{}", exists() ? "" : "missing; ",
                    exists() ? fmt::format(", got {}", found(*node_)) : ""));
  return fallback.value_or("");
}

std::string Value::as_choice(const std::vector<std::string>& allowed, std::optional<std::string> fallback) const {
  ask(*node_, {.path = path_, .kind = AskedKey::Kind::choice, .fallback = fallback.value_or(""), .choices = allowed});
  if (!exists() && fallback) return *fallback;
  if (is_scalar() && std::ranges::find(allowed, node_->scalar) != allowed.end()) return node_->scalar;
  const std::string nearest = is_scalar() ? nearest_name(node_->scalar, allowed) : "";
  error(fmt::format("{}expected one of {}{}{}", exists() ? "" : "missing; ", fmt::join(allowed, ", "),
                    exists() ? fmt::format(", got {}", found(*node_)) : "",
                    nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  return fallback.value_or(allowed.empty() ? "" : allowed.front());
}

void Value::finish() const {
  if (node_->is_accepted || node_->is_reported) return;
  if (is_map()) {
    std::vector<std::string> known;
    for (const Node::Entry& entry : node_->entries) {
      if (entry.is_known) known.push_back(entry.key);
    }
    for (const std::string& asked : node_->asked) known.push_back(asked);
    for (const Node::Entry& entry : node_->entries) {
      if (entry.is_known) {
        Value(entry.value, joined(path_, entry.key)).finish();
        continue;
      }
      if (node_->owner->errors.size() >= kMaxErrors) {
        ++node_->owner->num_errors_dropped;
        continue;
      }
      const std::string nearest = nearest_name(entry.key, known);
      node_->owner->record(fmt::format(
          "{}: {}: unknown key{}", entry.place.text(), joined(path_, shortened(entry.key)),
          nearest.empty() ? (known.empty() ? std::string() : fmt::format(" (known: {})", fmt::join(known, ", ")))
                          : fmt::format("; did you mean {}?", nearest)));
    }
  } else if (is_list()) {
    for (std::size_t i = 0; i < node_->elements.size(); ++i) {
      Value(node_->elements[i], fmt::format("{}[{}]", path_, i)).finish();
    }
  }
}

void Value::accept_all() const {
  node_->is_accepted = true;
}

}  // namespace kvtide::config
