// Hugging Face transformers: cache classes and generate() arguments.

#include <fmt/format.h>

#include "base/error.h"
#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

bool recognises(const StackText& text) {
  return text.mentions("QuantizedCache") || text.mentions("cache_implementation") || text.mentions("SinkCache") ||
         text.mentions("StaticCache") || text.mentions("OffloadedCache") || text.mentions("DynamicCache") ||
         text.mentions("SlidingWindowCache") || text.has({"q_group_size", "residual_length"});
}

bool is_hqq(const StackText& text) {
  const std::string backend = text.value({"backend", "cache_backend"}).value_or("");
  return backend == "hqq" || backend == "HQQ" || text.mentions("HQQQuantizedCache") ||
         text.mentions("HQQQuantizedLayer");
}

/// What shares a scale. Both reshape a tensor of [batch, head, token, channel]: quanto (optimum/quanto/tensor/grouped.py) takes
/// groups of neighbours in memory, channels of one token, with axis 0, and neighbouring tokens of one channel with -1; HQQ
/// (hqq/core/quantize.py) neighbours in memory with axis 1, and with 0 elements of one channel that lie far apart.
std::string scale_axis(const StackText& text, std::string_view key, Imported& imported) {
  const std::string axis = text.value({key}).value_or("0");
  // Where no backend is named, 1 can only be HQQ's.
  if (is_hqq(text) || (axis == "1" && !text.value({"backend", "cache_backend"}))) {
    if (axis == "1") return "token";
    if (axis != "0") throw InputError(fmt::format("import: {}: expected 0 or 1 for HQQ, got \"{}\"", key, axis));
    imported.loses.push_back(fmt::format(
        "{} 0 of HQQ: a group's tokens lie all over the context; read as neighbouring tokens of one channel", key));
    return "channel";
  }
  if (axis == "0") return "token";
  if (axis != "-1") throw InputError(fmt::format("import: {}: expected 0 or -1 for quanto, got \"{}\"", key, axis));
  return "channel";
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model", "model_id", "pretrained_model_name_or_path"}).value_or("");
  imported.page_size = 1;
  imported.context_tokens = text.integer({"max_length", "max_cache_len"});
  const std::string kind = text.value({"cache_implementation"}).value_or("");
  const bool is_quantized =
      kind == "quantized" || text.mentions("QuantizedCache") || text.value({"q_group_size"}).has_value();
  if (is_quantized) {
    const std::int64_t bits = text.integer({"nbits"}).value_or(4);
    if (bits != 8 && bits != 4 && bits != 3 && bits != 2) {
      throw InputError(fmt::format("import: nbits: expected 2, 3, 4 or 8, got {}", bits));
    }
    const std::int64_t group = text.integer({"q_group_size"}).value_or(64);
    const std::int64_t residual = text.integer({"residual_length"}).value_or(128);
    imported.compression = fmt::format(
        "{{block_size: {}, protect: {{sinks: 0, window: 0}}, stages: [{{quantize: {{format: int{}, group: {}, k_axis: "
        "{}, "
        "v_axis: {}, residual: {}, residual_from: prompt}}}}]}}",
        group, bits, group, scale_axis(text, "axis_key", imported), scale_axis(text, "axis_value", imported), residual);
    imported.loses.push_back(
        fmt::format("QuantizedCache: {}-bit integers in groups of {}; the whole prompt is quantized at once, then the "
                    "newest tokens wait "
                    "in 16 bits until {} are there",
                    bits, group, residual));
  } else if (text.mentions("SinkCache")) {
    const std::int64_t window = text.integer({"window_length"}).value_or(256);
    const std::int64_t sinks = text.integer({"num_sink_tokens"}).value_or(4);
    if (sinks >= window) {
      throw InputError(fmt::format("import: window_length {} must exceed num_sink_tokens {}", window, sinks));
    }
    imported.compression = streaming_compression(sinks, window - sinks);
    imported.loses.push_back(fmt::format(
        "SinkCache: {} sinks and the newest {} positions; everything between is dropped", sinks, window - sinks));
  } else if (kind == "sliding_window" || text.mentions("SlidingWindowCache")) {
    imported.keeps.emplace_back("sliding window cache: what the model's own window never reads is dropped");
  } else {
    imported.keeps.emplace_back("dynamic, static and offloaded caches hold every position in 16 bits");
  }
  return imported;
}

}  // namespace

Stack hugging_face_stack() {
  return {"huggingface", &recognises, &read};
}

}  // namespace kvtide::experiment
