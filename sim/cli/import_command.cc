#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "experiment/import/import.h"

namespace kvtide::cli {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

/// A file of that name, "-" for stdin, else the text itself.
std::string read_input(const std::string& argument) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::string text(kMaxBytes + 1, '\0');
  if (argument == "-") {
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
  } else if (argument.size() < 4096 && fs::is_regular_file(argument, failure)) {
    text = read_whole_file(argument, kMaxBytes, "a command line, configuration or log");
  } else {
    text = argument;
    if (text.find_first_of(" =\n({") == std::string::npos) {
      throw InputError(fmt::format("{}: no such file, and no command line either", argument));
    }
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw InputError("import: the text is empty");
  return text;
}

int run(const Arguments& arguments) {
  experiment::ImportHints hints;
  hints.stack = arguments.text("stack").value_or("");
  hints.model = arguments.text("model").value_or("");
  hints.gpu = arguments.text("gpu").value_or("");
  hints.requests = arguments.text("requests").value_or("");
  hints.trace = arguments.text("trace").value_or(
      (std::filesystem::path(data_directory()) / "experiments/traces/smollm2-135m-2k.h5").string());
  const std::optional<std::string> output = arguments.text("output");
  std::error_code failure;
  if (output && std::filesystem::is_regular_file(*output, failure)) {
    throw InputError(fmt::format("{}: exists already; nothing replaces it (another -o, or remove it)", *output));
  }
  const experiment::Imported imported = experiment::import_text(read_input(arguments.positional[0]), hints);
  const std::string yaml = experiment::experiment_yaml(imported, hints);
  if (arguments.has("json")) {
    fmt::print(
        "{{\"stack\": {}, \"compression\": {}, \"loses\": {}, \"keeps\": {}, \"left_out\": {}, "
        "\"not_understood\": {}, \"experiment\": {}}}\n",
        quoted_text(imported.stack), quoted_text(imported.compression), json_texts(imported.loses),
        json_texts(imported.keeps), json_texts(imported.left_out), json_texts(imported.not_understood),
        quoted_text(yaml));
    return kDone;
  }
  if (!output) {
    fmt::print("{}", yaml);
    return kDone;
  }
  write_whole_file(*output, yaml);
  for (const std::string& sentence : imported.loses) fmt::print("loses information: {}\n", sentence);
  if (imported.loses.empty())
    fmt::print("loses nothing: every position is kept in 16 bits (as far as this text shows)\n");
  for (const std::string& sentence : imported.left_out) fmt::print("not carried over: {}\n", sentence);
  if (!imported.not_understood.empty()) fmt::print("not understood: {}\n", fmt::join(imported.not_understood, ", "));
  fmt::print("{}\n", *output);
  return kDone;
}

}  // namespace

Command import_command() {
  return {
      .name = "import",
      .positional = "\"COMMAND LINE\"|FILE|-",
      .min_positional = 1,
      .max_positional = 1,
      .summary = "command line, config or log of a serving stack -> the experiment it means, and what it loses",
      .options = {{"output,o", "FILE", "the experiment file to write, a new one; without: stdout"},
                  {"stack", "NAME",
                   "vllm, sglang, tensorrt-llm, lmcache, llama.cpp, huggingface or kvpress; without: recognised"},
                  {"model", "NAME", "a name of kvtide show models or a config.json; without: the stack's own"},
                  {"gpu", "NAME", "a name of kvtide show gpus (h100-sxm)"},
                  {"requests", "CSV", "the server's traffic: its engine is simulated, too"},
                  {"trace", "FILE", "recorded attention (the shipped one)"},
                  {"json", "", "one JSON document on stdout"}},
      .examples = {"kvtide import \"vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8\" -o mine.yaml",
                   "journalctl -u llama-server | kvtide import - --stack llama.cpp"},
      .run = &run};
}

}  // namespace kvtide::cli
