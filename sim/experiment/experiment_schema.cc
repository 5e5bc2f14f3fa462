#include "experiment/experiment_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/quoted_text.h"
#include "config/yaml_value.h"
#include "experiment/preset/preset.h"
#include "experiment/setting_reader.h"
#include "kv/compression/scorer.h"

namespace kvtide::experiment {
namespace {

using config::AskedKey;
using config::Document;
using Kind = AskedKey::Kind;

// Together they enter every branch of the reader. What they say beside that does not matter, wrong values included.
constexpr std::array kExamples{
    "compression: {stages: [{evict: {}}, {pool: {}}, {low_rank: {rank: 8}}, {quantize: {}}]}",
    "compression: {stages: [{low_rank: {k_share: 0.5}}]}",
    "compression: {prefill_chunk: 1, decode: {target: 1}, recall: 0, share_layers: {from: 0.5}}",
    "compression: {stages: [{evict: {scorer: file, kept: f.h5, critical: {epsilon: 1e-4}, threshold: 0}}]}",
    "compression: {stages: [{evict: {critical: true, selection: entropy_gated, budget: uniform}}]}",
    "compression: {stages: [{evict: {heads: adaptive, budget: {pyramid: {}}}}]}",
    "compression: {stages: [{evict: {budget: {lazy: {}}}}]}",
    "compression: {stages: [{evict: {budget: {layers: [0.5]}}}]}",
    "compression: {stages: [{evict: {heads_file: f.json}}]}",
    "compression: {partition: {kind: random_offset}, protect: {anchors: none}}",
    "compression: {partition: {kind: overlap, overlap: {}}, protect: {anchors: [numbers]}}",
    "compression: {partition: {kind: prefix_pad}, protect: {anchors: key_norm}}",
    "compression: {partition: {kind: content}, positions: {kind: smooth}}",
    "compression: none",
    "trace: {synthetic: {kind: uniform, tokens: 64}}\nprobe: {}\nmeasure: [memory]\nloss: {measure_queries: [0, 1]}",
    "workload: {requests: r.csv, facts: f.csv}\nengine: {}\nslo: {}\ncalibration: {}",
    "workload: {requests: r.csv}\nengine: {kind: trtllm, capacity_policy: max_utilization, disaggregation: {}}",
    "trace: {file: t.h5, companion: u.h5}\nloss: {measure_queries: question}",
};

/// One key of the format, with everything that was asked of it.
struct Node {
  std::vector<AskedKey> asked;
  std::vector<std::string> order;  ///< of the properties
  std::map<std::string, std::unique_ptr<Node>> properties;
  std::unique_ptr<Node> element;  ///< of a list
  bool takes_numbers = false;     ///< further keys, each a number, are somebody else's to check

  Node& property(const std::string& name) {
    std::unique_ptr<Node>& node = properties[name];
    if (!node) {
      node = std::make_unique<Node>();
      order.push_back(name);
    }
    return *node;
  }
};

void put(Node& root, const AskedKey& key) {
  Node* node = &root;
  std::string name;
  const auto enter = [&] {
    if (!name.empty()) node = &node->property(name);
    name.clear();
  };
  for (const char c : key.path) {
    if (c == '.') {
      enter();
    } else if (c == '[') {
      enter();
      if (!node->element) node->element = std::make_unique<Node>();
      node = node->element.get();
    } else if (c != ']') {
      name += c;
    }
  }
  enter();
  const auto same = std::ranges::find(node->asked, key.kind, &AskedKey::kind);
  if (same == node->asked.end()) {
    node->asked.push_back(key);
    return;
  }
  for (const std::string& choice : key.choices) {
    if (std::ranges::find(same->choices, choice) == same->choices.end()) same->choices.push_back(choice);
  }
  if (same->fallback != key.fallback) same->fallback.clear();  // depends on other keys
}

std::string json_default(const AskedKey& key) {
  if (key.fallback.empty()) return "";
  const bool is_text = key.kind == Kind::text || key.kind == Kind::choice;
  return fmt::format(", \"default\": {}", is_text ? quoted_text(key.fallback) : key.fallback);
}

std::string json_range(const AskedKey& key) {
  std::string text;
  if (key.min) text += fmt::format(", \"minimum\": {}", *key.min);
  if (key.max) text += fmt::format(", \"maximum\": {}", *key.max);
  return text;
}

std::string schema_of(const Node& node, int indent);

std::string object_schema(const Node& node, int indent) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::vector<std::string> members;
  for (const std::string& name : node.order) {
    members.push_back(
        fmt::format("{}    {}: {}", margin, quoted_text(name), schema_of(*node.properties.at(name), indent + 4)));
  }
  return fmt::format(
      "{{\n{0}  \"type\": \"object\",\n{0}  \"properties\": {{\n{1}\n{0}  }},\n{0}  "
      "\"additionalProperties\": {2}\n{0}}}",
      margin, fmt::join(members, ",\n"), node.takes_numbers ? R"({"type": "number"})" : "false");
}

std::string scalar_schema(const AskedKey& key) {
  switch (key.kind) {
    case Kind::integer:
      return fmt::format("{{\"type\": \"integer\"{}{}}}", json_range(key), json_default(key));
    case Kind::number:
      return fmt::format("{{\"type\": \"number\"{}{}}}", json_range(key), json_default(key));
    case Kind::boolean:
      return fmt::format("{{\"type\": \"boolean\"{}}}", json_default(key));
    case Kind::choice: {
      std::vector<std::string> choices;
      for (const std::string& choice : key.choices) choices.push_back(quoted_text(choice));
      return fmt::format("{{\"enum\": [{}]{}}}", fmt::join(choices, ", "), json_default(key));
    }
    case Kind::quantity:
      return R"({"type": "string", "pattern": "^-?[0-9.eE+-]+ *[A-Za-z/%]+$"})";
    case Kind::text:
      return fmt::format("{{\"type\": [\"string\", \"number\"]{}}}", json_default(key));
    case Kind::map:
    case Kind::list:
      break;
  }
  return "{}";
}

std::string schema_of(const Node& node, int indent) {
  std::vector<std::string> forms;
  if (!node.properties.empty()) forms.push_back(object_schema(node, indent));
  if (node.element) {
    forms.push_back(fmt::format("{{\"type\": \"array\", \"items\": {}}}", schema_of(*node.element, indent)));
  }
  for (const AskedKey& key : node.asked) {
    if (key.kind != Kind::map && key.kind != Kind::list) forms.push_back(scalar_schema(key));
  }
  if (forms.empty()) return "{}";
  if (forms.size() == 1) return forms.front();
  return fmt::format("{{\"anyOf\": [{}]}}", fmt::join(forms, ", "));
}

/// Keys of the experiment itself, which read_setting() does not ask for.
constexpr std::array kOwnKeys{
    std::pair{"name", R"({"type": "string", "maxLength": 200})"},
    std::pair{"include", R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})"},
    std::pair{"sweep", R"({"type": "object"})"},
    std::pair{"baseline", R"({"type": "object"})"},
    std::pair{"claim", R"({"type": "object"})"},
};

}  // namespace

std::string experiment_schema() {
  Node root;
  std::vector<std::string> examples(kExamples.begin(), kExamples.end());
  // Every way of arriving with every way of writing lengths.
  for (const char* arrivals : {"poisson", "gamma", "ramp", "closed_loop"}) {
    for (const char* lengths : {"1", "{lognormal: {}}", "{uniform: {}}"}) {
      examples.push_back(
          fmt::format("workload: {{{}: {{input_tokens: {}, output_tokens: {}, prefixes: [{{}}], priorities: [{{}}]}}, "
                      "front: {{texts: [{{tokens: {}}}]}}}}",
                      arrivals, lengths, lengths, lengths));
    }
  }
  for (const kv::ScorerEntry& scorer : kv::scorers()) {  // each with its own parameters
    examples.push_back(fmt::format("compression: {{stages: [{{evict: {{scorer: {}}}}}]}}", scorer.name));
  }
  for (const std::string& example : examples) {
    Document document = Document::parse(example, "example");
    document.record_asked();
    NameResolver resolver("");
    (void)read_setting(document.root(), resolver);
    for (const AskedKey& key : document.asked()) put(root, key);
  }
  root.property("trace").property("synthetic").takes_numbers = true;  // the parameters of its kind
  Node& compression = root.property("compression");
  AskedKey preset{.path = "compression.preset", .kind = Kind::choice};
  for (const Preset& known : presets()) preset.choices.push_back(known.name);
  compression.property("preset").asked.push_back(std::move(preset));
  for (const char* share : {"keep_ratio", "share"}) {
    compression.property(share).asked.push_back(
        {.path = fmt::format("compression.{}", share), .kind = Kind::number, .min = 0, .max = 1});
  }
  compression.property("beta").asked.push_back({.path = "compression.beta", .kind = Kind::number, .min = 1});
  compression.property("heads_file").asked.push_back({.path = "compression.heads_file", .kind = Kind::text});
  compression.asked.push_back({.path = "compression", .kind = Kind::text});  // none, or the name of a preset
  std::vector<std::string> members;
  for (const auto& [name, schema] : kOwnKeys) members.push_back(fmt::format("    \"{}\": {}", name, schema));
  for (const std::string& name : root.order) {
    members.push_back(fmt::format("    {}: {}", quoted_text(name), schema_of(*root.properties.at(name), 4)));
  }
  return fmt::format(
      "{{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"title\": \"kvtide experiment\",\n"
      "  \"type\": \"object\",\n  \"required\": [\"name\"],\n  \"properties\": {{\n{}\n  }},\n"
      "  \"additionalProperties\": false\n}}\n",
      fmt::join(members, ",\n"));
}

}  // namespace kvtide::experiment
