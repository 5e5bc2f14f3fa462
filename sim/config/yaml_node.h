#pragma once
// The tree behind Value and Document. Private to this room.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_value.h"

namespace kvtide::config {

inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 20;
/// Nodes of one document after aliases are followed: 236 bytes of nested aliases can denote half a million.
inline constexpr std::size_t kMaxNodes = 200'000;
/// Nested lists and maps; every recursion of this room is bounded by it.
inline constexpr int kMaxDepth = 64;
/// More errors than anyone reads; the rest are counted, not kept.
inline constexpr std::size_t kMaxErrors = 200;

/// Where a node was written. line 0: not from a file (`--set`), only the name is shown.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;
  [[nodiscard]] std::string text() const;
};

struct Value::Node {
  enum class Kind : std::uint8_t { absent, null, scalar, map, list };
  struct Entry {
    std::string key;
    Place place;
    std::shared_ptr<Node> value;
    bool is_known = false;  ///< somebody asked for it
  };

  Kind kind = Kind::absent;
  Place place;
  Document::State* owner = nullptr;  ///< collects the errors; outlives the node
  std::string scalar;
  bool is_quoted = false;                       ///< "128" is a text, 128 a number
  std::vector<Entry> entries;                   ///< of a map, in file order
  std::vector<std::shared_ptr<Node>> elements;  ///< of a list
  std::vector<std::string> asked;               ///< keys that were asked for and absent: candidates for "did you mean"
  bool is_reported = false;                     ///< an error was recorded here: what depends on this node stays quiet
  bool is_accepted = false;                     ///< everything below is somebody else's to check

  [[nodiscard]] Entry* find(std::string_view key);
};

struct Document::State {
  std::shared_ptr<const std::string> name;
  std::string text;
  std::shared_ptr<Value::Node> root;
  std::vector<std::string> errors;
  std::set<std::string> seen_errors;  ///< the same sentence about the same place is kept once
  std::size_t num_errors_dropped = 0;
  bool records_asked = false;
  std::vector<AskedKey> asked;

  void record(const std::string& message);
  void ask(AskedKey key);
};

/// @throws InputError on syntax errors, duplicate keys (all of them), keys that are not text, more than one document,
/// too many or too deeply nested nodes. @param line_is_shown  false: places name only the file
[[nodiscard]] std::shared_ptr<Value::Node> parse_nodes(const std::string& text, std::shared_ptr<const std::string> name,
                                                       bool line_is_shown, Document::State* owner);

/// A deep copy without marks. @throws InputError when `num_nodes` would pass kMaxNodes
[[nodiscard]] std::shared_ptr<Value::Node> copy_nodes(const Value::Node& node, Document::State* owner,
                                                      std::size_t& num_nodes, int depth);

/// One line of YAML flow text that parses back to the same node.
[[nodiscard]] std::string flow_text(const Value::Node& node);

}  // namespace kvtide::config
