// Which shipped model a checkpoint's name means.

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "base/lower_case.h"
#include "model/model.h"

namespace kvtide {
namespace {

/// Letters and digits of a checkpoint's name, in lower case, without what does not change its shape.
std::string shape_name(const std::string& checkpoint) {
  std::string name = lower_case(checkpoint);
  if (const std::size_t slash = name.find_last_of('/'); slash != std::string::npos) name.erase(0, slash + 1);
  for (const std::string word : {"instruct", "chat", "meta-", "-hf", "-it", "-base"}) {
    if (const std::size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  }
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  return name;
}

/// The text behind "v01", or all of it.
std::string behind_version(const std::string& text) {
  if (text.size() < 2 || text[0] != 'v') return text;
  const auto end = std::find_if(text.begin() + 1, text.end(), [](unsigned char c) { return std::isdigit(c) == 0; });
  return end == text.begin() + 1 ? text : std::string(end, text.end());
}

/// "gptqint4", "q4kmgguf" or nothing.
bool is_weight_format(std::string text) {
  // A word that begins another stands behind it.
  constexpr std::array kWords{"awq",   "gptq",  "gguf", "bnb",  "quantized", "dynamic", "fp8",  "nvfp4", "mxfp4",
                              "w4a16", "w8a16", "w8a8", "int4", "int8",      "4bit",    "8bit", "bf16",  "f16",
                              "q3km",  "q4km",  "q4ks", "q40",  "q4",        "q5km",    "q5ks", "q6k",   "q80"};
  while (!text.empty()) {
    const auto word = std::ranges::find_if(kWords, [&text](const char* one) { return text.starts_with(one); });
    if (word == kWords.end()) return false;
    text.erase(0, std::string_view(*word).size());
  }
  return true;
}

/// The shipped model whose shape's name the checkpoint's is, but for a version and a rest that is accepted.
template <typename Accept>
std::string shipped_as(const std::string& checkpoint, const Accept& accepts) {
  const std::string wanted = shape_name(checkpoint);
  std::string best;
  for (const std::string& known : known_models()) {
    const std::string shape = shape_name(known);
    if (shape == wanted) return known;
    if (wanted.starts_with(shape) && accepts(behind_version(wanted.substr(shape.size())))) best = known;
  }
  return best;
}

}  // namespace

std::string shipped_model(const std::string& name) {
  return shipped_as(name, is_weight_format);
}

std::string shipped_checkpoint(const std::string& id) {
  return shipped_as(id, [](const std::string& rest) { return rest.empty(); });
}

}  // namespace kvtide
