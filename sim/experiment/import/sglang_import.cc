// SGLang: python -m sglang.launch_server, ServerArgs(...) in its log.

#include <fmt/format.h>

#include "experiment/import/kv_dtype.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

const std::vector<KvDtype>& dtypes() {
  static const std::vector<KvDtype> table{
      {"auto", "", "the model's own 16 bits"},
      {"bf16", "", "16 bits"},
      {"bfloat16", "", "16 bits"},
      {"fp8_e5m2", "fp8-e5m2", "every key and value is rounded to E5M2, 8 bits: lossy, half of the bytes"},
      {"fp8_e4m3", "fp8", "every key and value is rounded to E4M3, 8 bits: lossy, half of the bytes"},
      {"fp4_e2m1", "nvfp4", "4-bit floats in blocks of 16 channels (imported with E4M3 block scales): lossy"},
      {"mxfp8", "mxfp8", "E4M3 in blocks of 32 channels: lossy"}};
  return table;
}

bool recognises(const StackText& text) {
  return text.mentions("sglang") || text.has({"mem_fraction_static"});
}

/// The switches of the scheduler.
ImportedEngine engine_of(const StackText& text, std::int64_t page_size, std::vector<std::string>& left_out) {
  ImportedEngine engine;
  engine.kind = "sglang";
  engine.memory_share = text.number({"mem_fraction_static"});
  engine.num_blocks = blocks_of(text.integer({"max_total_tokens"}), page_size);
  engine.max_num_seqs = text.integer({"max_running_requests"});
  if (text.value({"chunked_prefill_size"}).value_or("") == "-1") {
    left_out.emplace_back("chunked_prefill_size -1: the engine here computes prompts in pieces");
  } else {
    engine.max_num_batched_tokens = text.integer({"chunked_prefill_size"});
  }
  engine.data_parallel = text.integer({"dp", "dp_size", "data_parallel_size"});
  engine.has_prefix_caching = !text.is_true({"disable_radix_cache"});
  if (text.is_true({"enable_priority_scheduling"})) {
    // Here, as in vLLM, the lower value goes first.
    if (text.is_true({"schedule_low_priority_values_first"})) {
      engine.scheduling_policy = "priority";
    } else {
      left_out.emplace_back("enable_priority_scheduling: higher values first; here lower ones (negate them)");
    }
  }
  if (const auto policy = text.value({"schedule_policy"}); policy && *policy != "fcfs") {
    left_out.push_back(fmt::format("schedule_policy {}: the engine here takes requests as they arrive", *policy));
  }
  return engine;
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model_path", "model"}).value_or("");
  imported.page_size = text.integer({"page_size"}).value_or(1);
  imported.keeps.push_back(
      fmt::format("page_size {}: tokens allocated together; nothing in a page is compressed", imported.page_size));
  set_kv_dtype("kv_cache_dtype", text.value({"kv_cache_dtype"}).value_or("auto"), dtypes(), imported);
  note_model_dtype(text, imported);
  imported.context_tokens = text.integer({"context_length"});
  imported.tensor_parallel = text.integer({"tp", "tp_size", "tensor_parallel_size"}).value_or(1);
  imported.pipeline_parallel = text.integer({"pp", "pp_size", "pipeline_parallel_size"}).value_or(1);
  imported.has_expert_parallel =
      text.is_true({"enable_ep_moe"}) || text.integer({"ep", "ep_size", "expert_parallel_size"}).value_or(1) > 1;
  imported.engine = engine_of(text, imported.page_size, imported.left_out);
  if (imported.engine.has_prefix_caching) {
    imported.keeps.emplace_back("radix cache: equal prefixes share tokens; what is reused is exact");
  }
  if (text.is_true({"enable_hierarchical_cache"})) {
    imported.keeps.emplace_back("hierarchical cache: pages are copied to host memory and back unchanged");
  }
  if (text.is_true({"enable_double_sparsity"})) {
    imported.loses.emplace_back(
        "double sparsity: a decode step reads only the positions that score high; not carried over");
  }
  return imported;
}

}  // namespace

Stack sglang_stack() {
  return {"sglang", &recognises, &read};
}

}  // namespace kvtide::experiment
