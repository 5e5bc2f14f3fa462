#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/whole_file.h"
#include "config/yaml_node.h"

namespace kvtide::config {
namespace {

using Node = Value::Node;

/// "stages[0].evict" -> stages, 0, evict. @throws InputError on an empty part
std::vector<std::string> split_path(const std::string& dotted_path) {
  std::vector<std::string> parts;
  std::string part;
  const auto push = [&] {
    if (part.empty()) throw InputError(fmt::format("\"{}\" is not a dotted path: it has an empty part", dotted_path));
    parts.push_back(std::move(part));
    part.clear();
  };
  bool after_bracket = false;
  for (const char c : dotted_path) {
    if (c == '.' || c == '[') {
      if (!after_bracket) push();
      after_bracket = false;
    } else if (c == ']') {
      push();
      after_bracket = true;
    } else {
      part += c;
    }
  }
  if (!after_bracket) push();
  if (parts.size() > kMaxDepth)
    throw InputError(fmt::format("\"{}\" is deeper than {} levels", dotted_path, kMaxDepth));
  return parts;
}

/// The place that a path's part names below `node`, created where a map lacks it.
std::shared_ptr<Node>* descend(const std::shared_ptr<Node>& node, const std::string& part,
                               const std::string& dotted_path, const Place& place) {
  if (node->kind == Node::Kind::null) node->kind = Node::Kind::map;
  if (node->kind == Node::Kind::map) {
    if (Node::Entry* found = node->find(part)) return &found->value;
    auto fresh = std::make_shared<Node>();
    fresh->kind = Node::Kind::null;
    fresh->place = place;
    fresh->owner = node->owner;
    node->entries.push_back({part, place, std::move(fresh), false});
    return &node->entries.back().value;
  }
  if (node->kind == Node::Kind::list) {
    std::size_t index = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error == std::errc{} && rest == part.data() + part.size() && index < node->elements.size()) {
      return &node->elements[index];
    }
    throw InputError(
        fmt::format("{}: \"{}\" is not an index of a list of {}", dotted_path, part, node->elements.size()));
  }
  throw InputError(fmt::format("{}: nothing can lie below \"{}\" ({}): it is a single value", dotted_path, node->scalar,
                               node->place.text()));
}

void graft(Document::State& state, const std::string& dotted_path, std::shared_ptr<Node> replacement) {
  std::shared_ptr<Node>* target = &state.root;
  for (const std::string& part : split_path(dotted_path)) {
    const std::shared_ptr<Node> parent = *target;
    target = descend(parent, part, dotted_path, replacement->place);
  }
  *target = std::move(replacement);
}

void fill(Node& node, const Node& base, Document::State* owner, std::size_t& num_nodes, int depth) {
  for (const Node::Entry& entry : base.entries) {
    if (Node::Entry* own = node.find(entry.key)) {
      const bool are_maps = own->value->kind == Node::Kind::map && entry.value->kind == Node::Kind::map;
      if (are_maps) fill(*own->value, *entry.value, owner, num_nodes, depth + 1);
    } else {
      Node::Entry copy{.key = entry.key, .place = entry.place, .value = nullptr};
      copy.value = copy_nodes(*entry.value, owner, num_nodes, depth + 1);
      node.entries.push_back(std::move(copy));
    }
  }
}

}  // namespace

void Document::State::record(const std::string& message) {
  if (seen_errors.contains(message)) return;
  if (errors.size() >= kMaxErrors) {
    ++num_errors_dropped;
    return;
  }
  seen_errors.insert(message);
  errors.push_back(message);
}

void Document::State::ask(AskedKey key) {
  std::string path;
  for (std::size_t i = 0; i < key.path.size(); ++i) {
    path += key.path[i];
    if (key.path[i] == '[') i = key.path.find(']', i) - 1;
  }
  key.path = std::move(path);
  const bool is_known = std::ranges::any_of(
      asked, [&key](const AskedKey& other) { return other.path == key.path && other.kind == key.kind; });
  if (!is_known) asked.push_back(std::move(key));
}

void Document::record_asked() {
  state_->records_asked = true;
}
const std::vector<AskedKey>& Document::asked() const {
  return state_->asked;
}

Document Document::load(const std::string& path) {
  return parse(read_whole_file(path, kMaxFileBytes, "a configuration file"), path);
}

Document Document::parse(const std::string& text, const std::string& name) {
  if (text.size() > kMaxFileBytes) {
    throw InputError(fmt::format("{}: longer than {} bytes, the limit for a configuration file", name, kMaxFileBytes));
  }
  if (text.find('\0') != std::string::npos)
    throw InputError(fmt::format("{}: not a text file (it holds a NUL byte)", name));
  auto state = std::make_shared<State>();
  state->name = std::make_shared<const std::string>(name);
  state->text = text;
  state->root = parse_nodes(text, state->name, true, state.get());
  return Document(std::move(state));
}

Value Document::root() const {
  return {state_->root, ""};
}
const std::string& Document::text() const {
  return state_->text;
}
const std::vector<std::string>& Document::errors() const {
  return state_->errors;
}

void Document::throw_if_errors() const {
  if (state_->errors.empty()) return;
  std::string message = fmt::format("{}", fmt::join(state_->errors, "\n"));
  if (state_->num_errors_dropped > 0) message += fmt::format("\n({} more errors)", state_->num_errors_dropped);
  throw InputError(message);
}

void Document::set(const std::string& dotted_path, const std::string& yaml_value) {
  const auto name = std::make_shared<const std::string>(fmt::format("--set {}", dotted_path));
  if (yaml_value.size() > kMaxFileBytes) throw InputError(fmt::format("{}: value too long", *name));
  graft(*state_, dotted_path, parse_nodes(yaml_value, name, false, state_.get()));
}

void Document::set(const std::string& dotted_path, const std::string& yaml_value, const Value& place) {
  std::shared_ptr<Node> node = parse_nodes(yaml_value, place.node().place.file, false, state_.get());
  node->place = place.node().place;
  graft(*state_, dotted_path, std::move(node));
}

void Document::set(const std::string& dotted_path, const Value& value) {
  std::size_t num_nodes = 0;
  graft(*state_, dotted_path, copy_nodes(value.node(), state_.get(), num_nodes, 0));
}

void Document::fill_from(const Document& base) {
  std::size_t num_nodes = 0;
  if (state_->root->kind != Node::Kind::map || base.state_->root->kind != Node::Kind::map) return;
  fill(*state_->root, *base.state_->root, state_.get(), num_nodes, 0);
}

Document Document::clone() const {
  auto state = std::make_shared<State>();
  state->name = state_->name;
  state->text = state_->text;
  std::size_t num_nodes = 0;
  state->root = copy_nodes(*state_->root, state.get(), num_nodes, -kMaxDepth);
  return Document(std::move(state));
}

}  // namespace kvtide::config
