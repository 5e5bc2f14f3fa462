// vLLM: vllm serve, LLM(...), engine arguments in YAML, and the arguments its start-up log prints.

#include <fmt/format.h>

#include "experiment/import/kv_dtype.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

const std::vector<KvDtype>& dtypes() {
  static const std::vector<KvDtype> table{
      {"auto", "", "the model's own 16 bits (a checkpoint may ask for fp8 in its quantization config: look there)"},
      {"float16", "", "16 bits"},
      {"bfloat16", "", "16 bits"},
      {"fp8", "fp8", "every key and value is rounded to E4M3, 8 bits: lossy, half of the bytes"},
      {"fp8_e4m3", "fp8", "every key and value is rounded to E4M3, 8 bits: lossy, half of the bytes"},
      {"fp8_e5m2", "fp8-e5m2", "every key and value is rounded to E5M2, 8 bits: lossy, half of the bytes"},
      {"fp8_inc", "fp8", "E4M3 on Gaudi: lossy, half of the bytes"},
      {"int8_per_token_head", "int8", "8-bit integers, a scale a token and head: lossy"},
      {"int4_per_token_head", "int4", "4-bit integers, a scale a token and head: lossy"},
      {"fp8_per_token_head", "fp8-per-token-head", "E4M3, a scale a token and head: lossy"},
      {"nvfp4", "nvfp4", "4-bit floats in blocks of 16 channels: lossy"},
      {"nvfp4_4over6", "nvfp4", "4-bit floats in blocks of 16 channels (imported with the plain block scale): lossy"},
      {"turboquant_4bit_nc", "turboquant-4", "4-bit TurboQuant: lossy"},
      {"turboquant_3bit_nc", "turboquant-3", "3-bit TurboQuant: lossy"},
      {"turboquant_k8v4", "turboquant-k8v4", "E4M3 keys, 4-bit values: lossy"},
      {"turboquant_k3v4_nc", "turboquant-k3v4", "3-bit keys, 4-bit values: lossy"}};
  return table;
}

bool recognises(const StackText& text) {
  return text.mentions("vllm") || text.has({"kv_cache_dtype_skip_layers", "gpu_memory_utilization",
                                            "max_num_batched_tokens", "num_gpu_blocks_override"});
}

/// The switches of the scheduler.
ImportedEngine engine_of(const StackText& text, std::vector<std::string>& left_out) {
  ImportedEngine engine;
  engine.kind = "vllm";
  engine.memory_share = text.number({"gpu_memory_utilization"});
  engine.num_blocks = text.integer({"num_gpu_blocks_override"});
  engine.max_num_seqs = text.integer({"max_num_seqs"});
  engine.max_num_batched_tokens = text.integer({"max_num_batched_tokens"});
  engine.data_parallel = text.integer({"data_parallel_size", "dp"});
  engine.has_prefix_caching = !text.is_true({"no_enable_prefix_caching"}) && !text.is_false({"enable_prefix_caching"});
  const std::string policy = text.value({"scheduling_policy"}).value_or("fcfs");
  if (policy == "priority") engine.scheduling_policy = policy;
  if (text.is_true({"no_enable_chunked_prefill"}) || text.is_false({"enable_chunked_prefill"})) {
    left_out.emplace_back("no chunked prefill: the engine here computes prompts in pieces");
  }
  return engine;
}

std::string model_of(const StackText& text) {
  if (const auto named = text.value({"model"})) return *named;
  const auto& words = text.words();
  for (std::size_t index = 0; index + 1 < words.size(); ++index) {
    if (words[index] == "serve") return words[index + 1];
  }
  return "";
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = model_of(text);
  imported.page_size = text.integer({"block_size"}).value_or(16);
  imported.keeps.push_back(fmt::format(
      "block_size {}: the page in which the cache is allocated; a page is kept whole, nothing in it is compressed",
      imported.page_size));
  set_kv_dtype("kv_cache_dtype", text.value({"kv_cache_dtype", "cache_dtype"}).value_or("auto"), dtypes(), imported);
  note_model_dtype(text, imported);
  imported.context_tokens = text.integer({"max_model_len", "max_seq_len"});
  imported.tensor_parallel = text.integer({"tensor_parallel_size", "tp"}).value_or(1);
  imported.pipeline_parallel = text.integer({"pipeline_parallel_size", "pp"}).value_or(1);
  imported.has_expert_parallel = text.is_true({"enable_expert_parallel"});
  imported.engine = engine_of(text, imported.left_out);
  if (text.is_true({"enable_prefix_caching"})) {
    imported.keeps.emplace_back("prefix caching: equal prefixes share pages; what is reused is exact");
  }
  if (text.is_true({"enable_chunked_prefill"})) {
    imported.keeps.emplace_back("chunked prefill: the prompt is computed in pieces; the cache is the same");
  }
  for (const char* key : {"kv_offloading_size", "kv_offloading_backend", "swap_space", "kv_transfer_config"}) {
    if (text.value({key})) {
      imported.keeps.push_back(fmt::format("{}: pages are copied to another memory and back unchanged", key));
    }
  }
  if (text.value({"cpu_offload_gb"})) imported.left_out.emplace_back("cpu_offload_gb moves weights, not the cache");
  if (const auto layers = text.value({"kv_cache_dtype_skip_layers"})) {
    imported.left_out.push_back(fmt::format(
        "kv_cache_dtype_skip_layers {}: those layers stay in 16 bits; here all layers are quantized", *layers));
  }
  return imported;
}

}  // namespace

Stack vllm_stack() {
  return {"vllm", &recognises, &read};
}

}  // namespace kvtide::experiment
