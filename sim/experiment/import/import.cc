#include "experiment/import/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/lower_case.h"
#include "experiment/import/stack_text.h"
#include "experiment/machine_evaluation.h"
#include "experiment/served_decode.h"
#include "experiment/served_engine.h"
#include "gpu/gpu_profile.h"
#include "model/model.h"

namespace kvtide::experiment {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr std::int64_t kMostContext = 1 << 24;  // of an experiment

/// The more telling first: a kvpress script also names transformers, LMCache runs inside vLLM.
std::vector<Stack> stacks() {
  return {kvpress_stack(), lmcache_stack(),      llama_cpp_stack(),   sglang_stack(),
          vllm_stack(),    tensorrt_llm_stack(), hugging_face_stack()};
}

std::string letters_and_digits(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isalnum(c) == 0; });
  return text;
}

/// Without line feeds, which would end a comment.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

void add_comments(std::string& yaml, const char* title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  yaml += fmt::format("# {}\n", title);
  for (const std::string& sentence : sentences) yaml += fmt::format("#   - {}\n", one_line(sentence));
}

std::string quoted(const std::string& text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  });
  if (is_plain) return text;
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "'";
}

/// As `model:` takes it; empty: the text names none, or one that is not shipped.
std::string model_name(const Imported& imported, const ImportHints& hints) {
  return hints.model.empty() ? shipped_model(imported.model) : hints.model;
}

std::string gpu_name(const ImportHints& hints) {
  return hints.gpu.empty() ? kStandInGpu : hints.gpu;
}

/// Refused where KV heads and ranks do not divide one another, told where ranks repeat heads.
void check_ranks(const Model& model, Imported& imported) {
  (void)model.layers_of_rank(imported.tensor_parallel);  // throws with both numbers
  if (model.num_kv_heads > 0 && imported.tensor_parallel > model.num_kv_heads) {
    imported.keeps.push_back(fmt::format("tensor parallelism {}: more ranks than the {} KV heads; {} ranks repeat each",
                                         imported.tensor_parallel, model.num_kv_heads,
                                         imported.tensor_parallel / model.num_kv_heads));
  }
  const std::int64_t num_experts = model.experts.num_experts;
  if (imported.has_expert_parallel && (num_experts == 0 || num_experts % imported.tensor_parallel != 0)) {
    imported.has_expert_parallel = false;
    imported.left_out.push_back(fmt::format("expert parallelism: {} experts are not divided among {} ranks",
                                            num_experts, imported.tensor_parallel));
  }
}

/// What the engine itself takes on that GPU where it is told nothing. vLLM 0.19, of a server (get_batch_defaults in engine/arg_utils.py):
/// from 70 GiB on, but for an A100, 8,192 tokens and 1,024 sequences, else 2,048 and 256. SGLang 0.5 (_handle_gpu_memory_settings in
/// server_args.py): prompts in chunks of 2,048 tokens below 35 GiB, 4,096 below 60, 8,192 below 160, else 16,384; its pool of requests
/// has room for 2,048 at least.
ImportedEngine with_defaults(ImportedEngine engine, const gpu::GpuProfile& gpu) {
  const double gib = static_cast<double>(gpu.reported_bytes) / 1073741824.0;
  std::int64_t seqs = 0, tokens = 0;
  if (engine.kind == "vllm") {
    const bool is_large = gib >= 70 && lower_case(gpu.name).find("a100") == std::string::npos;
    seqs = is_large ? 1024 : 256;
    tokens = is_large ? 8192 : 2048;
  } else if (engine.kind == "sglang") {
    seqs = 2048;
    tokens = gib < 35 ? 2048 : gib < 60 ? 4096 : gib < 160 ? 8192 : 16384;
  }
  const ServingSetting ours;
  if (!engine.max_num_seqs && seqs > 0 && seqs != ours.max_num_seqs) engine.max_num_seqs = seqs;
  if (!engine.max_num_batched_tokens && tokens > 0 && tokens != ours.max_num_batched_tokens) {
    engine.max_num_batched_tokens = tokens;
  }
  return engine;
}

/// What decides an engine's memory.
ServingSetting serving_of(const ImportedEngine& engine) {
  ServingSetting serving;
  serving.engine = engine.kind;
  serving.memory_share = std::clamp(engine.memory_share.value_or(engine.kind == "sglang" ? 0 : 0.9), 0.0, 1.0);
  serving.max_num_seqs = engine.max_num_seqs.value_or(serving.max_num_seqs);
  serving.max_num_batched_tokens = engine.max_num_batched_tokens.value_or(serving.max_num_batched_tokens);
  return serving;
}

/// What a checkpoint's name says of its weights; empty: nothing.
std::string format_in_name(const std::string& model) {
  std::string name = lower_case(model);
  if (const std::size_t slash = name.find_last_of('/'); slash != std::string::npos) name.erase(0, slash + 1);
  // A word that another holds stands behind it.
  for (const char* part : {"awq",  "gptq",  "mxfp8",     "nvfp4", "mxfp4", "fp8", "fp4",   "w4a16",   "w4a8",
                           "w8a8", "w8a16", "autoround", "int4",  "int8",  "bnb", "-4bit", "-8bit",   "q2_k",
                           "q3_k", "q4_",   "q5_",       "q6_k",  "q8_0",  "iq4", "bf16",  "bfloat16"}) {
    if (const std::size_t at = name.find(part); at != std::string::npos) return name.substr(at);
  }
  return "";
}

/// What the stack's option says of the weights, else the checkpoint's name: options name the program that packed them ("gptq",
/// "compressed-tensors"), names the bits.
void read_weights(const StackText& text, Imported& imported) {
  std::string option;
  if (text.is_true({"load_in_4bit"})) option = "4 bits";
  if (text.is_true({"load_in_8bit"})) option = "8 bits";
  if (const auto given = text.value({"quantization", "q", "quant_method", "quant_algo"});
      given && *given != "None" && *given != "null" && *given != "none") {
    option = *given;
  }
  const std::string named = format_in_name(imported.model);
  imported.weights = weight_format_of_word(option);
  const bool is_packer = imported.weights == WeightFormat::w4a16 && !named.empty();
  if (!imported.weights || is_packer) imported.weights = weight_format_of_word(named);
  if (is_packer && !imported.weights) imported.weights = WeightFormat::w4a16;
  if (imported.weights || (option.empty() && named.empty())) return;
  imported.unknown_weights = option.empty() ? named : option;
  imported.left_out.push_back(
      fmt::format("weights in {}, which is not known here: they are as the model publishes them, so memory for the "
                  "cache and times of steps differ",
                  imported.unknown_weights));
}

/// Of the served model. A checkpoint is served as it is published where the stack's word only says so less exactly (fp8 of blocks).
WeightStorage served_weights(const Model& model, const Imported& imported) {
  const WeightStorage published = model.published_weights.storage.value_or(WeightStorage{});
  const bool is_coarser = imported.weights == WeightFormat::fp8 && published.format == WeightFormat::fp8_block;
  if (!imported.weights || is_coarser || *imported.weights == published.format) return published;
  return model.stored_in(*imported.weights);
}

/// Sequences of `context_tokens` whose caches fit without compression, all GPUs together; none for a model that does not
/// run here, or has no cache.
std::optional<std::int64_t> sequences_that_fit(const Model& model, const ImportHints& hints, const Imported& imported,
                                               std::int64_t context_tokens) {
  if (!model.unsupported_reason().empty() || imported.pipeline_parallel > model.num_layers) return std::nullopt;
  Run run;
  run.setting.weights = served_weights(model, imported);
  run.setting.tensor_parallel = imported.tensor_parallel;
  run.setting.pipeline_parallel = imported.pipeline_parallel;
  if (imported.has_expert_parallel) run.setting.expert_parallel = imported.tensor_parallel;
  // Without traffic the experiment has no engine.
  const gpu::GpuProfile gpu = gpu::load_gpu_profile(gpu_name(hints));
  if (!hints.requests.empty() && !imported.engine.kind.empty()) {
    run.setting.serving = serving_of(with_defaults(imported.engine, gpu));
  }
  const Bytes capacity = kv_capacity(run, model, gpu);
  const auto sequence = static_cast<double>(cache_bytes(model.layers, context_tokens));
  if (sequence == 0) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<double>(capacity) * fullest_gpu_division(model, run.setting) / sequence);
}

/// Why sequences_that_fit() has no answer.
std::string reason_unknown(const std::optional<Model>& model, const Imported& imported) {
  if (!model) return "without the model";
  if (!model->unsupported_reason().empty()) return "for this model: " + model->unsupported_reason();
  if (imported.pipeline_parallel > model->num_layers) {
    return fmt::format("on {} pipeline stages: the model has {} layers", imported.pipeline_parallel, model->num_layers);
  }
  return "for a model without a KV cache";
}

/// A server's limit of sequences is no batch: at the longest context its memory may hold fewer.
void set_batch(const std::optional<Model>& model, const ImportHints& hints, Imported& imported) {
  if (!imported.engine.max_num_seqs) return;
  const std::int64_t most = *imported.engine.max_num_seqs;
  const std::int64_t context = imported.context_tokens.value_or(Setting{}.context_tokens);
  if (most < 1 || context < 1 || context > kMostContext) return;  // the experiment refuses them by name
  const auto fitting = imported.pool_tokens ? std::optional(*imported.pool_tokens / context)
                       : model              ? sequences_that_fit(*model, hints, imported, context)
                                            : std::nullopt;
  if (!fitting) {
    imported.left_out.push_back(fmt::format("at most {} sequences: a limit, no batch; how many fit is not known {}",
                                            most, reason_unknown(model, imported)));
    return;
  }
  imported.batch = std::clamp<std::int64_t>(*fitting, 1, most);
  imported.batch_reason =
      *fitting >= most       ? "the limit of sequences"
      : imported.pool_tokens ? fmt::format("of at most {}: the pool holds so many of {} tokens", most, context)
      : *fitting > 0         ? fmt::format("of at most {}: so many of {} tokens fit without compression", most, context)
                     : fmt::format("of at most {}: not one of {} tokens fits without compression", most, context);
}

/// `engine: {...}` without the key; empty where the stack has none.
std::string engine_text(const Imported& imported, const ImportHints& hints) {
  if (imported.engine.kind.empty()) return "";
  const ImportedEngine engine = with_defaults(imported.engine, gpu::load_gpu_profile(gpu_name(hints)));
  std::string text = fmt::format("{{kind: {}", engine.kind);
  const auto add = [&](const char* key, const auto& value) {
    if (value) text += fmt::format(", {}: {}", key, *value);
  };
  add("gpu_memory_utilization", engine.memory_share);
  add("num_blocks", engine.num_blocks);
  add("max_model_len", imported.context_tokens);
  add("max_num_seqs", engine.max_num_seqs);
  add("max_num_batched_tokens", engine.max_num_batched_tokens);
  add("data_parallel", engine.data_parallel);
  if (!engine.has_prefix_caching) text += ", prefix_caching: false";
  if (!engine.scheduling_policy.empty()) text += ", scheduling_policy: " + engine.scheduling_policy;
  if (!engine.capacity_policy.empty()) text += ", capacity_policy: " + engine.capacity_policy;
  const bool is_filled_in = engine.max_num_seqs != imported.engine.max_num_seqs ||
                            engine.max_num_batched_tokens != imported.engine.max_num_batched_tokens;
  return text + (is_filled_in ? fmt::format("}}  # limits not given: {}'s own on this GPU", engine.kind) : "}");
}

/// A traffic's own file decides whether there is an engine to simulate.
std::string engine_lines(const Imported& imported, const ImportHints& hints) {
  const std::string engine = engine_text(imported, hints);
  if (!hints.requests.empty()) {
    return fmt::format("workload: {{requests: {}}}\n{}", quoted(hints.requests),
                       engine.empty() ? "" : fmt::format("engine: {}\n", engine));
  }
  if (engine.empty()) return "";
  return fmt::format(
      "# The text says nothing of traffic; with --requests, or a workload written here, the engine is simulated, too:\n"
      "# engine: {}\n",
      engine);
}

bool is_own_file(const StackText& text) {
  const auto has = [&](const char* key) { return std::ranges::find(text.outermost(), key) != text.outermost().end(); };
  return (has("gpu") && has("trace")) || has("plan");
}

}  // namespace

std::string streaming_compression(std::int64_t sinks, std::int64_t window) {
  // The smallest ratio leaves exactly what is protected.
  return fmt::format(
      "{{block_size: 1, protect: {{sinks: {}, window: {}}}, stages: [{{evict: {{granularity: token, keep_ratio: "
      "0.000001}}}}]}}",
      sinks, window);
}

Imported import_text(const std::string& text, const ImportHints& hints) {
  if (text.size() > kMaxBytes) throw InputError("import: longer than 4 MiB; give the lines of the start-up");
  const StackText stack_text(text);
  if (is_own_file(stack_text))
    throw InputError("import: an experiment or plan of kvtide already: kvtide run or plan takes it");
  std::vector<std::string> names;
  for (const Stack& stack : stacks()) {
    names.emplace_back(stack.name);
    if (hints.stack.empty() ? !stack.recognises(stack_text) : hints.stack != stack.name) continue;
    Imported imported = stack.read(stack_text);
    imported.stack = stack.name;
    read_log(stack_text, imported);
    read_weights(stack_text, imported);
    for (const auto& [what, ranks] :
         {std::pair("tensor", imported.tensor_parallel), std::pair("pipeline", imported.pipeline_parallel)}) {
      if (ranks < 1) throw InputError(fmt::format("import: {} parallelism must be at least 1, got {}", what, ranks));
    }
    const std::string name = model_name(imported, hints);
    const std::optional<Model> model = name.empty() ? std::nullopt : std::optional(load_model(name));
    if (model) check_ranks(*model, imported);
    if (model && served_weights(*model, imported) == model->published_weights.storage) imported.weights.reset();
    set_batch(model, hints, imported);
    imported.not_understood = stack_text.unread();
    return imported;
  }
  if (!hints.stack.empty()) {
    throw InputError(fmt::format("import: unknown stack \"{}\" (known: {})", hints.stack, fmt::join(names, ", ")));
  }
  Imported imported;
  read_log(stack_text, imported);
  if (!imported.loses.empty() || !imported.keeps.empty()) {
    imported.stack = "a log";
    return imported;
  }
  throw InputError(
      fmt::format("import: no serving stack recognised (known: {}); name it with --stack", fmt::join(names, ", ")));
}

std::string experiment_yaml(const Imported& imported, const ImportHints& hints) {
  const std::string known = model_name(imported, hints);
  std::string yaml = fmt::format("# Imported from {}.\n", imported.stack);
  add_comments(yaml, "Loses information:",
               imported.loses.empty()
                   ? std::vector<std::string>{"nothing: every position is kept in 16 bits (as far as this text shows)"}
                   : imported.loses);
  add_comments(yaml, "Looks like compression and loses nothing:", imported.keeps);
  add_comments(yaml, "Read and not carried over:", imported.left_out);
  add_comments(yaml, "Not understood:", imported.not_understood);
  if (known.empty()) {
    yaml += imported.model.empty() ? "# The text names no model: a stand-in; --model NAME or config.json sets it.\n"
                                   : fmt::format("# No shipped model is {}: give --model a name or a config.json.\n",
                                                 one_line(imported.model));
  }
  if (hints.gpu.empty()) yaml += "# The text names no GPU: a stand-in; --gpu NAME sets it.\n";
  const std::string model = !known.empty() ? known : !imported.model.empty() ? imported.model : "llama-3.1-8b";
  yaml += fmt::format("name: imported-{}\nmodel: {}\ngpu: {}\ntrace: {}\n", quoted(letters_and_digits(imported.stack)),
                      quoted(model), quoted(gpu_name(hints)), quoted(hints.trace));
  if (imported.weights) yaml += fmt::format("weights: {}\n", to_string(*imported.weights));
  if (imported.context_tokens) yaml += fmt::format("context_tokens: {}\n", *imported.context_tokens);
  if (imported.batch) {
    yaml += fmt::format("batch: {}{}\n", *imported.batch,
                        imported.batch_reason.empty() ? "" : "  # " + imported.batch_reason);
  }
  if (imported.tensor_parallel > 1) yaml += fmt::format("tensor_parallel: {}\n", imported.tensor_parallel);
  if (imported.pipeline_parallel > 1) yaml += fmt::format("pipeline_parallel: {}\n", imported.pipeline_parallel);
  if (imported.has_expert_parallel && imported.tensor_parallel > 1) {
    yaml += fmt::format("expert_parallel: {}\n", imported.tensor_parallel);
  }
  yaml += fmt::format("cache: {{page_size: {}}}\ncompression: {}\n", imported.page_size, imported.compression);
  return yaml + engine_lines(imported, hints);
}

}  // namespace kvtide::experiment
