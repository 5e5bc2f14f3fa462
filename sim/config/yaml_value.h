#pragma once
// Strict reading of YAML (and JSON, a subset for our purposes): experiments, plans, GPU profiles, model files.
//
// yaml-cpp alone keeps the first of two equal keys, reads 010 as 8 and never sees a misspelt key. This reader
//  - refuses duplicate and unknown keys (naming the nearest known one), aliases beyond a node limit, files over 4 MiB;
//  - reads scalars as text and converts by our own rules (no octal, no yes/no, exact integers, units required);
//  - remembers file:line:column of every value, and reports ALL errors of a file at once.
//
// Example:
//   Document document = Document::load("demo.yaml");
//   Value root = document.root();
//   const auto block_size = root.at("compression").integer("block_size", {.fallback = 128, .min = 1, .max = 65536});
//   root.finish();            // every key that nobody asked for is an error
//   document.throw_if_errors();   // InputError with one line per problem
//
// A message reads  demo.yaml:12:5: compression.block_size: expected an integer in 1..65536, got "banana"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace kvtide::config {

struct IntegerRule {
  std::optional<std::int64_t> fallback = {};  ///< none: the key is required
  std::int64_t min = INT64_MIN;
  std::int64_t max = INT64_MAX;
};

struct NumberRule {
  std::optional<double> fallback = {};  ///< none: the key is required
  double min = -1e308;
  double max = 1e308;
  bool min_is_open = false;  ///< true: value > min (a keep ratio in (0, 1])
};

struct QuantityRule {
  Dimension dimension;
  std::optional<double> fallback = {};  ///< in SI base units; none: the key is required
  double min = 0;
  double max = 1e308;
};

/// One node of a document with its key path ("compression.stages[0].evict"). Cheap to copy; valid while its Document
/// lives. Every getter records an error in the document instead of throwing, and then returns the fallback or an
/// in-range value, so that one pass finds all errors of a file.
class Value {
 public:
  [[nodiscard]] bool exists() const;   ///< false: the key is absent
  [[nodiscard]] bool is_null() const;  ///< written as `key:` or `key: null`
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] const std::string& path() const;
  /// "demo.yaml:12:5"
  [[nodiscard]] std::string where() const;
  /// The scalar's text, or the node as one line of YAML flow text (for labels).
  [[nodiscard]] std::string text() const;

  /// Child of a map; exists() is false where absent. Marks the key as known. Anything but a map (or nothing) is an
  /// error.
  [[nodiscard]] Value at(std::string_view key) const;
  [[nodiscard]] std::vector<Value> items() const;       ///< elements of a list; error when not a list
  [[nodiscard]] std::vector<std::string> keys() const;  ///< of a map, in file order; error when not a map

  // Conversions of this node.
  [[nodiscard]] std::int64_t as_integer(const IntegerRule& rule = {}) const;
  [[nodiscard]] double as_number(const NumberRule& rule = {}) const;
  [[nodiscard]] double as_quantity(const QuantityRule& rule) const;     ///< "45 ns" -> 4.5e-8
  [[nodiscard]] bool as_bool(std::optional<bool> fallback = {}) const;  ///< true or false, nothing else
  [[nodiscard]] std::string as_string(std::optional<std::string> fallback = {}) const;
  /// Text that must be one of `allowed`; the error lists them and names the nearest.
  [[nodiscard]] std::string as_choice(const std::vector<std::string>& allowed,
                                      std::optional<std::string> fallback = {}) const;

  // The same for a child: at(key).as_...(rule).
  [[nodiscard]] std::int64_t integer(std::string_view key, const IntegerRule& rule = {}) const {
    return at(key).as_integer(rule);
  }
  [[nodiscard]] double number(std::string_view key, const NumberRule& rule = {}) const {
    return at(key).as_number(rule);
  }
  [[nodiscard]] double quantity(std::string_view key, const QuantityRule& rule) const {
    return at(key).as_quantity(rule);
  }
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> fallback = {}) const {
    return at(key).as_bool(fallback);
  }
  [[nodiscard]] std::string string(std::string_view key, std::optional<std::string> fallback = {}) const {
    return at(key).as_string(std::move(fallback));
  }
  [[nodiscard]] std::string choice(std::string_view key, const std::vector<std::string>& allowed,
                                   std::optional<std::string> fallback = {}) const {
    return at(key).as_choice(allowed, std::move(fallback));
  }

  /// Records an error at this node: "<where>: <path>: <message>".
  void error(const std::string& message) const;

  /// This map and everything below it that was asked for: each key that nobody asked for becomes an error.
  void finish() const;
  /// Accepts every key below this node unseen (for parts read by somebody else).
  void accept_all() const;

  struct Node;  // implementation
  [[nodiscard]] const Node& node() const { return *node_; }
  Value(std::shared_ptr<Node> node, std::string path) : node_(std::move(node)), path_(std::move(path)) {}

 private:
  std::shared_ptr<Node> node_;
  std::string path_;
};

/// What a reader asked of one key of a document: the file format as the code that reads it sees it.
struct AskedKey {
  enum class Kind : std::uint8_t { map, list, integer, number, quantity, boolean, text, choice };
  std::string path;  ///< "compression.stages[].evict.scorer": elements of a list share one path
  Kind kind = Kind::text;
  std::string fallback = {};       ///< what an absent key stands for, as YAML; empty: required or known elsewhere
  std::optional<double> min = {};  ///< of an integer or number, where bounded
  std::optional<double> max = {};
  std::vector<std::string> choices = {};  ///< of a choice
};

class Document {
 public:
  /// @throws InputError when the file is missing, over 4 MiB, not YAML, or has duplicate keys
  [[nodiscard]] static Document load(const std::string& path);
  /// @param name  shown in messages instead of a file name
  [[nodiscard]] static Document parse(const std::string& text, const std::string& name);

  [[nodiscard]] Value root() const;
  /// The text as it was read.
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] const std::vector<std::string>& errors() const;
  /// @throws InputError with every recorded error, one a line
  void throw_if_errors() const;

  /// `--set path.to.key=value`: replaces or adds the node at a dotted path (list elements as stages[0] or stages.0).
  /// @throws InputError when the path crosses a scalar or the value is not YAML
  void set(const std::string& dotted_path, const std::string& yaml_value);
  /// The same, written by what stands at `place`, which messages name.
  void set(const std::string& dotted_path, const std::string& yaml_value, const Value& place);
  /// The same with a node of this or another document (sweep axes may hold whole mappings).
  void set(const std::string& dotted_path, const Value& value);
  /// Takes what `base` has and this document lacks: mappings are merged key by key, everything else stays as it is
  /// here. Places in messages keep the file a node was written in.
  /// @throws InputError when the result would be too large
  void fill_from(const Document& base);
  /// From now on remembers what is asked of this document (not of its copies).
  void record_asked();
  /// Every question once, in the order of asking.
  [[nodiscard]] const std::vector<AskedKey>& asked() const;
  /// An independent copy (a sweep edits one copy per run).
  [[nodiscard]] Document clone() const;

  struct State;  // implementation
  explicit Document(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kvtide::config
