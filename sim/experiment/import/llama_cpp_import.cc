// llama.cpp: llama-server, llama-cli and the lines they print about the cache.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"
#include "kv/compression/codec.h"

namespace kvtide::experiment {
namespace {

const std::vector<std::string> kTypes{"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};

bool recognises(const StackText& text) {
  return text.mentions("llama-server") || text.mentions("llama-cli") || text.mentions("llama_kv_cache") ||
         text.mentions("llama_context") || text.mentions("llama.cpp") ||
         text.has({"ctk", "ctv", "cache_type_k", "cache_type_v"});
}

/// "K (q8_0): 68.00 MiB" in the start-up log.
std::optional<std::string> type_in_log(const StackText& text, const std::string& tensor) {
  const std::string opening = tensor + " (";
  const std::size_t at = text.text().find(opening);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t close = text.text().find(')', at);
  if (close == std::string::npos) return std::nullopt;
  return text.text().substr(at + opening.size(), close - at - opening.size());
}

std::string cache_type(const StackText& text, std::string_view long_key, std::string_view short_key,
                       const std::string& tensor) {
  auto type = text.value({long_key, short_key});
  if (!type) type = type_in_log(text, tensor);
  if (!type) return "f16";
  for (const std::string& known : kTypes) {
    if (*type == known) return known;
  }
  throw InputError(fmt::format("import: {}: expected one of {}, got \"{}\"", long_key, fmt::join(kTypes, ", "), *type));
}

std::string format_of(const std::string& type) {
  return type == "f32" || type == "f16" || type == "bf16" ? "fp16" : type;
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model", "m", "hf_repo", "hf"}).value_or("");
  imported.page_size = 1;
  const std::string k = cache_type(text, "cache_type_k", "ctk", "K");
  const std::string v = cache_type(text, "cache_type_v", "ctv", "V");
  const std::string k_format = format_of(k);
  const std::string v_format = format_of(v);
  if (k_format == "fp16" && v_format == "fp16") {
    imported.keeps.push_back(fmt::format("cache types {} and {}: 16 bits or more", k, v));
  } else {
    const std::string formats =
        k_format == v_format ? "format: " + k_format : fmt::format("k_format: {}, v_format: {}", k_format, v_format);
    imported.compression =
        fmt::format("{{block_size: 1, protect: {{sinks: 0, window: 0}}, stages: [{{quantize: {{{}}}}}]}}", formats);
    imported.loses.push_back(fmt::format("cache types K {}, V {}: blocks of 32 channels share a scale", k, v));
  }
  // The context of a server is what all its slots share: n_ctx_slot = n_ctx / n_parallel (tools/server). 0: the model's.
  const std::int64_t context = text.integer({"ctx_size", "c", "n_ctx"}).value_or(0);
  imported.batch = text.integer({"parallel", "np", "n_parallel", "n_seq_max"});
  const std::int64_t slots = std::max<std::int64_t>(imported.batch.value_or(1), 1);
  if (context > 0) imported.context_tokens = std::max<std::int64_t>(context / slots, 1);
  if (text.is_true({"kv_unified", "kvu"}) && slots > 1) {
    imported.keeps.push_back(fmt::format("one pool for {} slots: read as an equal share of the context each", slots));
  }
  if (text.value({"context_shift"}) || text.value({"keep"})) {
    imported.loses.push_back(
        fmt::format("context shift with --keep {}: when the context is full, half of what follows the kept tokens is "
                    "dropped; nothing is "
                    "lost before, and it is not carried over",
                    text.value({"keep"}).value_or("0")));
  }
  (void)text.value({"flash_attn", "fa"});  // another kernel over the same cache
  if (text.value({"n_gpu_layers", "gpu_layers", "ngl"})) {
    imported.left_out.emplace_back("layers on the GPU: here all of them are, with their caches");
  }
  if (text.is_true({"swa_full"})) imported.keeps.emplace_back("--swa-full: sliding layers keep the whole context");
  return imported;
}

}  // namespace

Stack llama_cpp_stack() {
  return {"llama.cpp", &recognises, &read};
}

}  // namespace kvtide::experiment
