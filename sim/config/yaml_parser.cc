#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "base/error.h"
#include "config/yaml_node.h"

namespace kvtide::config {
namespace {

using Node = Value::Node;

/// Counts a value, and its text in units of 64 bytes: an alias of one long text repeated is as large as many values.
void charge(std::size_t& num_nodes, std::size_t text_bytes, const Place& place) {
  num_nodes += 1 + text_bytes / 64;
  if (num_nodes <= kMaxNodes) return;
  throw InputError(fmt::format("{}: more than {} values in one document (aliases multiply)", place.text(), kMaxNodes));
}

/// Builds our tree from the parser's events, because yaml-cpp's own tree hides the second of two equal keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> name, bool line_is_shown, Document::State* owner)
      : name_(std::move(name)), line_is_shown_(line_is_shown), owner_(owner) {}

  std::shared_ptr<Node> root;
  std::string problems;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(make(Node::Kind::null, mark), anchor); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(Node::Kind::scalar, mark, value.size());
    node->scalar = value;
    node->is_quoted = tag != "?";
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      problem(place(mark), "an alias cannot refer to a node that contains it");
      throw InputError(problems);
    }
    auto copy = copy_nodes(*found->second, owner_, num_nodes_, static_cast<int>(open_.size()));
    add(std::move(copy), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(Node::Kind::list, mark), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(Node::Kind::map, mark), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor;
    bool has_key = false;
    Node::Entry pending = {};  ///< key read, value to come
    std::map<std::string, Place> seen_keys = {};
  };

  Place place(const YAML::Mark& mark) const {
    return line_is_shown_ ? Place{name_, mark.line + 1, mark.column + 1} : Place{name_, 0, 0};
  }

  void problem(const Place& where, const std::string& what) {
    if (problems.size() > 10'000) return;
    if (!problems.empty()) problems += "\n";
    problems += fmt::format("{}: {}", where.text(), what);
  }

  std::shared_ptr<Node> make(Node::Kind kind, const YAML::Mark& mark, std::size_t text_bytes = 0) {
    charge(num_nodes_, text_bytes, place(mark));
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = place(mark);
    node->owner = owner_;
    return node;
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == Node::Kind::map && !open_.back().has_key;
  }

  void open(std::shared_ptr<Node> node, YAML::anchor_t anchor) {
    if (static_cast<int>(open_.size()) >= kMaxDepth) {
      throw InputError(fmt::format("{}: nested deeper than {} levels", node->place.text(), kMaxDepth));
    }
    if (expects_key()) {
      problem(node->place, "a key must be text, got a list or a mapping");
      throw InputError(problems);
    }
    open_.push_back({.node = std::move(node), .anchor = anchor});
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(std::move(closed.node), closed.anchor);
  }

  void add(std::shared_ptr<Node> node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node->kind == Node::Kind::list) {
      parent.node->elements.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (node->kind != Node::Kind::scalar) {
        problem(node->place, "a key must be text");
        throw InputError(problems);
      }
      const auto [earlier, is_new] = parent.seen_keys.emplace(node->scalar, node->place);
      if (!is_new) {
        problem(node->place, fmt::format("the key \"{}\" is given twice (first at {})", node->scalar.substr(0, 80),
                                         earlier->second.text()));
      }
      parent.pending = {node->scalar, node->place, nullptr, false};
      parent.has_key = true;
    } else {
      // An empty value has no text of its own; the parser's mark is the next token's.
      if (node->kind == Node::Kind::null) node->place = parent.pending.place;
      parent.pending.value = std::move(node);
      parent.node->entries.push_back(std::move(parent.pending));
      parent.has_key = false;
    }
  }

  std::shared_ptr<const std::string> name_;
  bool line_is_shown_;
  Document::State* owner_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::shared_ptr<Node>> anchors_;
  std::size_t num_nodes_ = 0;
};

}  // namespace

std::shared_ptr<Value::Node> parse_nodes(const std::string& text, std::shared_ptr<const std::string> name,
                                         bool line_is_shown, Document::State* owner) {
  TreeBuilder builder(name, line_is_shown, owner);
  const std::string shown = *name;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    const bool has_content = parser.HandleNextDocument(builder);
    if (has_content && !builder.problems.empty()) throw InputError(builder.problems);
    std::shared_ptr<Node> root = builder.root;
    if (has_content && parser.HandleNextDocument(builder)) {
      throw InputError(fmt::format("{}: holds more than one document", shown));
    }
    if (root != nullptr) return root;
  } catch (const YAML::Exception& exception) {
    const Place place{name, line_is_shown ? exception.mark.line + 1 : 0, exception.mark.column + 1};
    throw InputError(fmt::format("{}: not YAML: {}", place.text(), exception.msg));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& exception) {  // yaml-cpp also lets standard exceptions through
    throw InputError(fmt::format("{}: not YAML: {}", shown, exception.what()));
  }
  auto empty = std::make_shared<Node>();
  empty->kind = Node::Kind::null;
  empty->place = {std::move(name), line_is_shown ? 1 : 0, 1};
  empty->owner = owner;
  return empty;
}

std::shared_ptr<Value::Node> copy_nodes(const Node& node, Document::State* owner, std::size_t& num_nodes, int depth) {
  charge(num_nodes, node.scalar.size(), node.place);
  if (depth > kMaxDepth) {
    throw InputError(fmt::format("{}: nested deeper than {} levels", node.place.text(), kMaxDepth));
  }
  auto copy = std::make_shared<Node>();
  copy->kind = node.kind;
  copy->place = node.place;
  copy->owner = owner;
  copy->scalar = node.scalar;
  copy->is_quoted = node.is_quoted;
  copy->entries.reserve(node.entries.size());
  for (const Node::Entry& entry : node.entries) {
    charge(num_nodes, entry.key.size(), entry.place);
    copy->entries.push_back({entry.key, entry.place, copy_nodes(*entry.value, owner, num_nodes, depth + 1), false});
  }
  copy->elements.reserve(node.elements.size());
  for (const auto& element : node.elements) {
    copy->elements.push_back(copy_nodes(*element, owner, num_nodes, depth + 1));
  }
  return copy;
}

}  // namespace kvtide::config
