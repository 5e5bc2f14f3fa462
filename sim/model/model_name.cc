// Which shipped model a checkpoint's name means.

#include <algorithm>
#include <cctype>
#include <string>

#include "base/lower_case.h"
#include "model/model.h"

namespace kvtide {
namespace {

/// Letters and digits of a checkpoint's name, in lower case, without what does not change its shape.
std::string shape_name(const std::string& checkpoint, bool ignores_formats) {
  std::string name = lower_case(checkpoint);
  if (const std::size_t slash = name.find_last_of('/'); slash != std::string::npos) name.erase(0, slash + 1);
  const auto remove = [&name](const std::string& word) {
    if (const std::size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  };
  for (const char* word : {"instruct", "chat", "meta-", "-hf", "-it", "-base"}) remove(word);
  if (ignores_formats) {
    for (const char* word : {"-fp8", "-awq", "-gptq", ".gguf"}) remove(word);
  }
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  return name;
}

/// "v01" or nothing.
bool is_version(const std::string& text) {
  return text.empty() ||
         (text.size() > 1 && text.front() == 'v' &&
          std::all_of(text.begin() + 1, text.end(), [](unsigned char c) { return std::isdigit(c) != 0; }));
}

}  // namespace

std::string shipped_model(const std::string& name) {
  const std::string wanted = shape_name(name, true);
  std::string best;
  for (const std::string& known : known_models()) {
    const std::string shape = shape_name(known, true);
    if (shape == wanted) return known;
    if (wanted.starts_with(shape) && shape.size() > shape_name(best, true).size()) best = known;
  }
  // A prefix alone would take llama-3.1-8b for Llama-3.1-80B: what follows must not be a digit.
  const std::size_t length = shape_name(best, true).size();
  if (!best.empty() && std::isdigit(static_cast<unsigned char>(wanted[length])) != 0) return "";
  return best;
}

std::string shipped_checkpoint(const std::string& id) {
  const std::string shipped = shipped_model(id);
  if (shipped.empty()) return "";
  const std::string wanted = shape_name(id, false), shape = shape_name(shipped, false);
  return wanted.starts_with(shape) && is_version(wanted.substr(shape.size())) ? shipped : "";
}

}  // namespace kvtide
