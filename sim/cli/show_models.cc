#include "cli/show_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/table.h"
#include "model/model.h"
#include "model/model_json.h"

namespace kvtide::cli {
namespace {

std::string parameters_text(const Model& model) {
  if (!model.weights.is_known) return "not counted";
  const auto billions = [](std::uint64_t count) { return static_cast<double>(count) * 1e-9; };
  const double all = billions(model.num_parameters());
  if (model.experts.num_experts == 0) return fmt::format("{:.2f} B", all);
  return fmt::format("{:.2f} B, {:.2f} B active", all, billions(model.num_active_parameters()));
}

void show_all() {
  Table table({{"model", Align::left},
               {"layers", Align::right},
               {"KV heads", Align::right},
               {"head_dim", Align::right},
               {"KV B/token", Align::right},
               {"growing", Align::right},
               {"parameters", Align::right},
               {"kvtide run", Align::left}});
  for (const std::string& name : known_models()) {
    const Model model = load_model(name);
    const std::string reason = model.unsupported_reason();
    table.add_row({name, fmt::format("{}", model.num_layers), fmt::format("{}", model.num_kv_heads),
                   fmt::format("{}", model.head_dim), fmt::format("{}", model.kv_bytes_per_token()),
                   fmt::format("{}", model.kv_bytes_per_token_growing()), parameters_text(model),
                   reason.empty() ? "yes" : "no: " + reason});
  }
  fmt::print("{}", table.text());
}

void show_layers(const Model& model) {
  Table table({{"layers", Align::right},
               {"kind", Align::left},
               {"KV heads", Align::right},
               {"K B/token", Align::right},
               {"V B/token", Align::right},
               {"window", Align::right},
               {"tokens an entry", Align::right}});
  for (const LayerKind& layer : model.layers) {
    table.add_row({fmt::format("{}", layer.count), std::string(to_string(layer.kind)),
                   fmt::format("{}", layer.num_kv_heads), fmt::format("{}", layer.k_bytes),
                   layer.is_latent ? "in K" : fmt::format("{}", layer.v_bytes),
                   layer.window > 0 ? fmt::format("{}", layer.window) : "-", fmt::format("{}", layer.compress_ratio)});
  }
  fmt::print("\n{}", table.text());
}

std::string rope_text(const Rope& rope) {
  if (rope.scaling.type == "unstated") return "base not stated";
  if (rope.rotary_dim == 0) return "none";
  std::string text = fmt::format("base {}, {} channels", rope.theta, rope.rotary_dim);
  if (rope.scaling.type != "none") text += ", " + rope.scaling.type;
  if (rope.scaling.factor > 0) text += fmt::format(" x {}", rope.scaling.factor);
  return text;
}

void show_one(const Model& model) {
  Table table({{"field", Align::left}, {"value", Align::left}});
  const auto row = [&table](const char* field, const auto& value) { table.add_row({field, fmt::format("{}", value)}); };
  row("name", model.name);
  row("source", model.source);
  row("class", model.model_type);
  row("layers", model.num_layers);
  row("query heads", model.num_query_heads);
  row("KV heads", model.num_kv_heads);
  row("head_dim", model.head_dim);
  row("hidden size", model.hidden_size);
  row("intermediate size", model.intermediate_size);
  if (model.experts.num_experts > 0) {
    row("experts", fmt::format("{}, {} a token", model.experts.num_experts, model.experts.num_active));
  }
  row("vocabulary", model.vocab_size);
  row("max positions", model.max_positions);
  row("RoPE", rope_text(model.rope));
  if (rope_text(model.sliding_rope) != rope_text(model.rope))
    row("RoPE, sliding layers", rope_text(model.sliding_rope));
  row("parameters", parameters_text(model));
  const PublishedWeights& published = model.published_weights;
  row("weights as published", published.storage ? to_string(*published.storage) : published.name);
  if (model.weights.is_known) {
    if (published.storage && *published.storage != WeightStorage{})
      row("weights so stored", format_bytes(static_cast<double>(model.weight_bytes(*published.storage))));
    row("weights at 16 bit", format_bytes(static_cast<double>(model.weight_bytes())));
  }
  row("KV bytes a token", fmt::format("{} B at 16 bit, every layer keeping everything", model.kv_bytes_per_token()));
  row("growing", fmt::format("{} B a token beyond every window", model.kv_bytes_per_token_growing()));
  if (window_cap_bytes(model.layers) > 0) {
    row("held by windows", format_bytes(static_cast<double>(window_cap_bytes(model.layers))));
  }
  if (model.kv_format.name != "16 bit") {
    row("KV cache as published",
        fmt::format("{}, {} B a token", model.kv_format.name, model.kv_bytes_per_token_stored()));
  }
  const std::string reason = model.unsupported_reason();
  row("kvtide run", reason.empty() ? "yes" : "no: " + reason);
  fmt::print("{}", table.text());
  show_layers(model);
}

}  // namespace

void show_models(const std::string& name, bool as_json) {
  if (!as_json) return name.empty() ? show_all() : show_one(load_model(name));
  if (!name.empty()) {
    fmt::print("{}\n", model_json(load_model(name)));
    return;
  }
  std::vector<std::string> models;
  for (const std::string& known : known_models()) models.push_back(model_json(load_model(known)));
  fmt::print("{{\"models\": [{}]}}\n", fmt::join(models, ",\n"));
}

}  // namespace kvtide::cli
