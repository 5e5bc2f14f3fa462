// TensorRT-LLM: trtllm-serve options and kv_cache_config.

#include <fmt/format.h>

#include <algorithm>

#include "experiment/import/kv_dtype.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

const std::vector<KvDtype>& dtypes() {
  static const std::vector<KvDtype> table{
      {"auto", "", "the checkpoint's own type"},
      {"float16", "", "16 bits"},
      {"bfloat16", "", "16 bits"},
      {"fp8", "fp8", "every key and value is rounded to E4M3, 8 bits: lossy"},
      {"int8", "int8", "8-bit integers (imported with a scale a token and head): lossy"},
      {"nvfp4", "nvfp4", "4-bit floats in blocks of 16 channels: lossy"}};
  return table;
}

bool recognises(const StackText& text) {
  return text.mentions("trtllm") || text.mentions("tensorrt") || text.mentions("kv_cache_config") ||
         text.has({"tokens_per_block", "free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction"});
}

/// "[4096]" or "4096" or "[4096, 32768]": the shortest.
std::optional<std::int64_t> shortest_window(const StackText& text) {
  const auto written = text.value({"max_attention_window", "max_attention_window_size"});
  if (!written) return std::nullopt;
  std::optional<std::int64_t> shortest;
  std::string digits;
  for (const char c : *written + " ") {
    if (c >= '0' && c <= '9') {
      digits += c;
    } else if (!digits.empty()) {
      const auto number = whole_number(digits);
      if (number) shortest = std::min(shortest.value_or(*number), *number);
      digits.clear();
    }
  }
  return shortest;
}

/// The switches of the scheduler.
ImportedEngine engine_of(const StackText& text, std::int64_t page_size) {
  ImportedEngine engine;
  engine.kind = "trtllm";
  engine.memory_share = text.number({"free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction"});
  engine.num_blocks = blocks_of(text.integer({"kv_cache_config_max_tokens"}), page_size);
  engine.max_num_seqs = text.integer({"max_batch_size"});
  engine.max_num_batched_tokens = text.integer({"max_num_tokens"});
  engine.has_prefix_caching = !text.is_false({"enable_block_reuse"});
  for (const char* policy : {"guaranteed_no_evict", "max_utilization"}) {
    if (text.value({"capacity_scheduler_policy"}) && text.mentions(policy)) engine.capacity_policy = policy;
  }
  return engine;
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model", "model_dir"}).value_or("");
  const auto& words = text.words();
  for (std::size_t index = 0; index + 1 < words.size() && imported.model.empty(); ++index) {
    if (words[index].ends_with("trtllm-serve")) imported.model = words[index + 1];
  }
  imported.page_size = text.integer({"tokens_per_block"}).value_or(32);
  imported.keeps.push_back(fmt::format(
      "tokens_per_block {}: tokens allocated together; nothing in a block is compressed", imported.page_size));
  set_kv_dtype("kv_cache dtype", text.value({"kv_cache_dtype", "kv_cache_config_dtype"}).value_or("auto"), dtypes(),
               imported);
  imported.context_tokens = text.integer({"max_seq_len", "max_input_len"});
  imported.tensor_parallel = text.integer({"tp_size", "tensor_parallel_size"}).value_or(1);
  imported.pipeline_parallel = text.integer({"pp_size", "pipeline_parallel_size"}).value_or(1);
  imported.has_expert_parallel = text.integer({"ep_size", "moe_expert_parallel_size"}).value_or(1) > 1;
  imported.engine = engine_of(text, imported.page_size);
  const std::int64_t sinks = text.integer({"sink_token_length"}).value_or(0);
  if (const auto window = shortest_window(text);
      window && *window > sinks && (!imported.context_tokens || *window < *imported.context_tokens)) {
    imported.compression = streaming_compression(sinks, *window - sinks);
    imported.loses.push_back(fmt::format(
        "max_attention_window {} with {} sink tokens: positions between are dropped; every layer is imported so",
        *window, sinks));
  }
  if (imported.engine.has_prefix_caching) {
    imported.keeps.emplace_back("block reuse: equal prefixes share blocks; what is reused is exact");
  }
  if (text.is_true({"enable_chunked_prefill"})) {
    imported.keeps.emplace_back("chunked prefill: the prompt is computed in pieces; the cache is the same");
  }
  if (text.value({"host_cache_size"})) {
    imported.keeps.emplace_back("host_cache_size: blocks are copied to host memory and back unchanged");
  }
  return imported;
}

}  // namespace

Stack tensorrt_llm_stack() {
  return {"tensorrt-llm", &recognises, &read};
}

}  // namespace kvtide::experiment
