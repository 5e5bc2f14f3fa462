#include "experiment/import/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "experiment/import/stack_text.h"
#include "model/model.h"

namespace kvtide::experiment {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

/// The more telling first: a kvpress script also names transformers, LMCache runs inside vLLM.
std::vector<Stack> stacks() {
  return {kvpress_stack(), lmcache_stack(),      llama_cpp_stack(),   sglang_stack(),
          vllm_stack(),    tensorrt_llm_stack(), hugging_face_stack()};
}

/// Letters and digits of a model's name, without what does not change its shape.
std::string shape_name(std::string name) {
  if (const std::size_t slash = name.find_last_of('/'); slash != std::string::npos) name.erase(0, slash + 1);
  std::string plain;
  for (const char c : name) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"instruct", "chat", "meta-", "-hf", "-it", "-base", "-fp8", "-awq", "-gptq", ".gguf"}) {
    if (const std::size_t at = plain.find(word); at != std::string::npos) plain.erase(at, std::string(word).size());
  }
  std::erase_if(plain, [](unsigned char c) { return std::isalnum(c) == 0; });
  return plain;
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

/// KV heads and ranks: refused where they do not divide one another, told where ranks repeat heads.
void check_ranks(const std::string& model_name, Imported& imported) {
  if (imported.tensor_parallel < 1) {
    throw InputError(fmt::format("import: tensor parallelism must be at least 1, got {}", imported.tensor_parallel));
  }
  if (imported.tensor_parallel == 1 || model_name.empty()) return;
  const Model model = load_model(model_name);
  (void)model.layers_of_rank(imported.tensor_parallel);  // throws with both numbers
  const std::int64_t heads = std::max<std::int64_t>(1, model.num_kv_heads / imported.tensor_parallel);
  imported.left_out.push_back(
      fmt::format("tensor parallelism {}: the experiment is of one GPU with all {} KV heads; a rank holds {}",
                  imported.tensor_parallel, model.num_kv_heads, heads));
}

}  // namespace

std::string streaming_compression(std::int64_t sinks, std::int64_t window) {
  // The smallest ratio leaves exactly what is protected.
  return fmt::format(
      "{{block_size: 1, protect: {{sinks: {}, window: {}}}, stages: [{{evict: {{granularity: token, keep_ratio: "
      "0.000001}}}}]}}",
      sinks, window);
}

std::string shipped_model(const std::string& name) {
  const std::string wanted = shape_name(name);
  std::string best;
  for (const std::string& known : known_models()) {
    const std::string shape = shape_name(known);
    if (shape == wanted) return known;
    if (wanted.starts_with(shape) && shape.size() > shape_name(best).size()) best = known;
  }
  // A prefix alone would take llama-3.1-8b for Llama-3.1-80B: what follows must not be a digit.
  const std::size_t length = shape_name(best).size();
  if (!best.empty() && std::isdigit(static_cast<unsigned char>(wanted[length])) != 0) return "";
  return best;
}

Imported import_text(const std::string& text, const ImportHints& hints) {
  if (text.size() > kMaxBytes) throw InputError("import: longer than 4 MiB; give the lines of the start-up");
  const StackText stack_text(text);
  std::vector<std::string> names;
  for (const Stack& stack : stacks()) {
    names.emplace_back(stack.name);
    if (hints.stack.empty() ? !stack.recognises(stack_text) : hints.stack != stack.name) continue;
    Imported imported = stack.read(stack_text);
    imported.stack = stack.name;
    read_log(stack_text, imported);
    check_ranks(hints.model.empty() ? shipped_model(imported.model) : hints.model, imported);
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
  const std::string shipped = shipped_model(imported.model);
  const std::string model = !hints.model.empty() ? hints.model : !shipped.empty() ? shipped : imported.model;
  std::string yaml = fmt::format("# Imported from {}.\n", imported.stack);
  add_comments(yaml, "Loses information:",
               imported.loses.empty()
                   ? std::vector<std::string>{"nothing: every position is kept in 16 bits (as far as this text shows)"}
                   : imported.loses);
  add_comments(yaml, "Looks like compression and loses nothing:", imported.keeps);
  add_comments(yaml, "Read and not carried over:", imported.left_out);
  if (hints.model.empty() && shipped.empty()) {
    yaml += model.empty()
                ? "# The text names no model: a stand-in; --model NAME or config.json sets it.\n"
                : fmt::format("# No shipped model is {}: give --model a name or a config.json.\n", one_line(model));
  }
  yaml += fmt::format("name: imported-{}\nmodel: {}\ngpu: {}\ntrace: {}\n", quoted(shape_name(imported.stack)),
                      quoted(model.empty() ? "llama-3.1-8b" : model), quoted(hints.gpu), quoted(hints.trace));
  if (imported.context_tokens) yaml += fmt::format("context_tokens: {}\n", *imported.context_tokens);
  if (imported.batch) yaml += fmt::format("batch: {}\n", *imported.batch);
  yaml += fmt::format("cache: {{page_size: {}}}\ncompression: {}\n", imported.page_size, imported.compression);
  return yaml;
}

}  // namespace kvtide::experiment
