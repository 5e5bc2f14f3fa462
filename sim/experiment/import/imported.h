#pragma once
// What a serving stack's own words mean here: the keys of an experiment, and in plain sentences what happens to its KV cache.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/weight_storage.h"

namespace kvtide::experiment {

class StackText;

/// What it says of its scheduler and memory: keys of `engine:`. Not given: the stack's own default, which may be that of the GPU.
struct ImportedEngine {
  std::string kind;  ///< vllm, sglang, trtllm; empty: the stack has no engine here
  std::optional<double> memory_share;
  std::optional<std::int64_t> num_blocks, max_num_seqs, max_num_batched_tokens, data_parallel;
  bool has_prefix_caching = true;
  std::string scheduling_policy;  ///< priority; empty: in order of arrival
  std::string capacity_policy;    ///< of TensorRT-LLM, in lower case
};

struct Imported {
  std::string stack;  ///< "vLLM"
  std::string model;  ///< as the stack names it; empty: not said
  std::optional<std::int64_t> context_tokens;
  std::optional<std::int64_t> batch;  ///< sequences that are decoded together
  std::string batch_reason;           ///< where the stack only said how many at most
  std::int64_t page_size = 16;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  bool has_expert_parallel = false;
  ImportedEngine engine;
  std::optional<WeightFormat> weights;      ///< none: as published
  std::string unknown_weights;              ///< a format that the stack or the name says and nothing here has
  std::optional<std::int64_t> pool_tokens;  ///< that the engine's cache holds, as its log says
  std::string compression = "none";         ///< the value of `compression:`, one line of YAML
  std::vector<std::string> loses;           ///< what the stack does that loses information
  std::vector<std::string> keeps;           ///< what looks like compression and loses nothing
  std::vector<std::string> left_out;        ///< what was read and has no counterpart here
  std::vector<std::string> not_understood;  ///< options that were not read, as written
};

/// A stack that can be read.
struct Stack {
  const char* name;
  bool (*recognises)(const StackText& text);
  /// @throws InputError  a value that the stack itself would refuse, with what is allowed
  Imported (*read)(const StackText& text);
};

// One per file.
[[nodiscard]] Stack vllm_stack();
[[nodiscard]] Stack sglang_stack();
[[nodiscard]] Stack tensorrt_llm_stack();
[[nodiscard]] Stack lmcache_stack();
[[nodiscard]] Stack llama_cpp_stack();
[[nodiscard]] Stack kvpress_stack();
[[nodiscard]] Stack hugging_face_stack();

/// Adds to `imported` what a start-up or request log shows whatever the configuration claims: pool sizes, cache types, and
/// requests whose attended KV is shorter than their sequence.
void read_log(const StackText& text, Imported& imported);

/// The engine's blocks, null block included, of a cache given in tokens.
[[nodiscard]] inline std::optional<std::int64_t> blocks_of(std::optional<std::int64_t> tokens, std::int64_t page_size) {
  if (!tokens || *tokens < page_size || page_size < 1) return std::nullopt;
  return *tokens / page_size + 1;
}

/// Only the first `sinks` and the newest `window` positions are attended: what is left of any longer context.
[[nodiscard]] std::string streaming_compression(std::int64_t sinks, std::int64_t window);

}  // namespace kvtide::experiment
