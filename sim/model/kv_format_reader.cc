#include "model/kv_format_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;

const KvFormat kFp8{"fp8", 1, 1};
const KvFormat kInt8{"int8", 1, 1};
const KvFormat kNvfp4{"nvfp4", 16, 9};  // 16 values of 4 bits and one 8-bit scale (NVIDIA, NVFP4 block format)

KvFormat from_word(const Value& value) {
  std::string word = value.as_string();
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "fp8" || word == "fp8_e4m3" || word == "fp8_e5m2" || word == "float8") return kFp8;
  if (word == "int8") return kInt8;
  if (word == "nvfp4") return kNvfp4;
  if (word == "none" || word == "auto" || word == "bf16" || word == "bfloat16" || word == "fp16" || word == "float16") {
    return {};
  }
  value.error(fmt::format("expected FP8, INT8, NVFP4 or null as format of the KV cache, got \"{}\"", value.text()));
  return {};
}

KvFormat from_object(const Value& object) {
  object.accept_all();
  const std::int64_t bits = object.integer("num_bits", {.min = 1, .max = 32});
  const std::string type = object.choice("type", {"float", "int"});
  if (bits == 8) return type == "float" ? kFp8 : kInt8;
  if (bits == 16 && type == "float") return {};
  object.error(
      fmt::format("a KV cache of {} bits as {} is not understood (8 bits as float or int, 16 as float)", bits, type));
  return {};
}

/// The statements in one map, and in the quantization_config and quantization below it.
void collect(const Value& map, std::vector<std::pair<Value, KvFormat>>& found) {
  if (!map.is_map()) return;
  for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_dtype"}) {
    const Value value = map.at(key);
    if (is_given(value)) found.emplace_back(value, value.is_map() ? from_object(value) : from_word(value));
  }
  for (const char* key : {"quantization_config", "quantization"}) {
    const Value below = map.at(key);
    if (!is_given(below)) continue;
    if (!below.is_map()) {
      below.error("expected a mapping or null");
      continue;
    }
    below.accept_all();
    for (const std::string& name : below.keys()) {
      const bool is_known = name == "kv_cache_scheme" || name == "kv_cache_quant_algo" || name == "kv_cache_dtype";
      if (!is_known && (name.find("kv") != std::string::npos || name.find("cache") != std::string::npos)) {
        below.at(name).error("is not understood, and may change how the KV cache is stored");
      }
    }
    collect(below, found);
  }
}

}  // namespace

KvFormat read_kv_format(const std::vector<Value>& places) {
  std::vector<std::pair<Value, KvFormat>> found;
  for (const Value& place : places) collect(place, found);
  if (found.empty()) return {};
  for (const auto& [value, format] : found) {
    if (format.name != found.front().second.name) {
      value.error(fmt::format("says the KV cache is {}, while {} says {}", format.name, found.front().first.path(),
                              found.front().second.name));
    }
  }
  return found.front().second;
}

}  // namespace kvtide
