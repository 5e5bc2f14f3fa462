#include "model/weight_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "base/lower_case.h"
#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;

std::string word_at(const Value& map, const char* key) {
  const Value value = map.at(key);
  return is_given(value) && value.is_scalar() ? lower_case(value.text()) : "";
}

/// The number behind "layers." in a module's name.
std::optional<std::int64_t> layer_of(const std::string& module) {
  constexpr std::string_view kPrefix = "layers.";
  const std::size_t at = module.find(kPrefix);
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = module.data() + at + kPrefix.size();
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(begin, module.data() + module.size(), layer);
  return error == std::errc{} ? std::optional(layer) : std::nullopt;
}

/// Whether modules that keep 16 bits are those of attention: by a pattern for all layers, or one by one in most.
bool keeps_attention(const Value& quantization, std::int64_t num_layers) {
  std::set<std::int64_t> layers;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules"}) {
    const Value list = quantization.at(key);
    if (!is_given(list) || !list.is_list()) continue;
    for (const Value& item : list.items()) {
      const std::string module = item.is_scalar() ? lower_case(item.text()) : "";
      const auto has = [&module](const char* part) { return module.find(part) != std::string::npos; };
      if (!has("attn") && !has("attention")) continue;
      if (has("vision") || has("visual") || has("audio") || has("mtp")) continue;  // not of the language model
      const auto layer = layer_of(module);
      if (!layer) return true;
      if (*layer < num_layers) layers.insert(*layer);
    }
  }
  return 2 * std::ssize(layers) > num_layers;
}

/// Of compressed-tensors; none: another method, or one that says nothing of weights.
std::optional<Value> first_group(const Value& quantization) {
  const Value groups = quantization.at("config_groups");
  if (!groups.is_map() || groups.keys().empty()) return std::nullopt;
  const Value group = groups.at(groups.keys().front());
  return group.is_map() && group.at("weights").is_map() ? std::optional(group) : std::nullopt;
}

/// Groups of int4 weights: said by the first group of compressed-tensors, or by the method itself (AWQ, GPTQ).
void read_groups(const Value& quantization, WeightStorage& storage) {
  const std::optional<Value> group = first_group(quantization);
  const Value place = group ? group->at("weights") : quantization;
  const std::string size = word_at(place, "group_size");
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
  if (error == std::errc{} && value >= 8 && value <= 65536) storage.group_size = value;
  storage.has_zeros = word_at(place, "symmetric") != "true";
}

/// What a group of compressed-tensors makes of weights and inputs.
/// Example: {weights: {num_bits: 4, type: int}, input_activations: null} is w4a16.
std::optional<WeightFormat> format_of_group(const Value& group) {
  const Value weights = group.at("weights");
  const std::string bits = word_at(weights, "num_bits"), type = word_at(weights, "type");
  const bool has_narrow_inputs = group.at("input_activations").is_map();
  if (bits == "8" && !has_narrow_inputs) return WeightFormat::w8a16;
  if (bits == "8" && type == "int") return WeightFormat::w8a8;
  if (bits == "8") return word_at(weights, "strategy") == "block" ? WeightFormat::fp8_block : WeightFormat::fp8;
  if (bits == "4" && type == "int" && !has_narrow_inputs) return WeightFormat::w4a16;
  if (bits == "4" && type == "float")
    return word_at(weights, "group_size") == "32" ? WeightFormat::mxfp4 : WeightFormat::nvfp4;
  return std::nullopt;
}

std::optional<WeightFormat> format_of(const Value& quantization) {
  const std::string method = word_at(quantization, "quant_method"), bits = word_at(quantization, "bits");
  if (const std::string algorithm = word_at(quantization, "quant_algo"); !algorithm.empty())
    return weight_format_of_word(algorithm);
  if (method == "compressed-tensors") {
    const std::optional<Value> group = first_group(quantization);
    return group ? format_of_group(*group) : std::nullopt;
  }
  if (method == "fp8") {
    return is_given(quantization.at("weight_block_size")) ? WeightFormat::fp8_block : WeightFormat::fp8;
  }
  if (const auto format = weight_format_of_word(method); format == WeightFormat::w4a16 && !bits.empty()) {
    if (bits == "8") return WeightFormat::w8a16;
    if (bits != "4") return std::nullopt;
  }
  return weight_format_of_word(method);
}

}  // namespace

const std::vector<std::string>& weight_format_names() {
  static const std::vector<std::string> names{"bf16", "fp8", "fp8_block", "w8a8", "w8a16", "w4a16", "nvfp4", "mxfp4"};
  return names;
}

std::string to_string(WeightFormat format) {
  return weight_format_names()[static_cast<std::size_t>(format)];
}

std::optional<WeightFormat> weight_format(std::string_view name) {
  const auto place = std::ranges::find(weight_format_names(), name);
  if (place == weight_format_names().end()) return std::nullopt;
  return static_cast<WeightFormat>(place - weight_format_names().begin());
}

std::optional<WeightFormat> weight_format_of_word(const std::string& word) {
  // The more telling first: "w4a16_awq", "fp8_block_scales", "modelopt_fp4".
  constexpr std::array<std::pair<const char*, WeightFormat>, 19> kWords{{
      {"bf16", WeightFormat::bf16},      {"bfloat16", WeightFormat::bf16},       {"modelopt_fp4", WeightFormat::nvfp4},
      {"fp4", WeightFormat::nvfp4},      {"fp8_block", WeightFormat::fp8_block}, {"fp8_pb_wo", WeightFormat::w8a16},
      {"w8a8_fp8", WeightFormat::fp8},   {"w8a8", WeightFormat::w8a8},           {"w8a16", WeightFormat::w8a16},
      {"int8_wo", WeightFormat::w8a16},  {"w4a16", WeightFormat::w4a16},         {"awq", WeightFormat::w4a16},
      {"gptq", WeightFormat::w4a16},     {"auto-round", WeightFormat::w4a16},    {"int4_wo", WeightFormat::w4a16},
      {"fbgemm_fp8", WeightFormat::fp8}, {"modelopt", WeightFormat::fp8},        {"fp8", WeightFormat::fp8},
      {"int4", WeightFormat::w4a16},
  }};
  const std::string wanted = lower_case(word);
  const auto says = [&wanted](const char* part) { return wanted.find(part) != std::string::npos; };
  if (says("mxfp4")) return WeightFormat::mxfp4;
  if (says("nvfp4")) return WeightFormat::nvfp4;
  const auto found = std::ranges::find_if(kWords, [&](const auto& entry) { return wanted.starts_with(entry.first); });
  if (found == kWords.end()) return std::nullopt;
  if (found->second != WeightFormat::w4a16) return found->second;
  if (says("3bit") || says("2bit") || says("int3") || says("int2")) return std::nullopt;
  return says("int8") || says("8bit") ? WeightFormat::w8a16 : WeightFormat::w4a16;
}

double bytes_per_weight(const WeightStorage& storage) {
  switch (storage.format) {
    case WeightFormat::bf16:
      return 2;
    case WeightFormat::fp8:
    case WeightFormat::w8a8:
    case WeightFormat::w8a16:
      return 1;
    case WeightFormat::fp8_block:
      return 1 + 4.0 / (128 * 128);
    case WeightFormat::w4a16:
      return 0.5 + (storage.has_zeros ? 2.5 : 2.0) / static_cast<double>(storage.group_size);
    case WeightFormat::nvfp4:
      return 0.5 + 1.0 / 16;
    case WeightFormat::mxfp4:
      return 0.5 + 1.0 / 32;
  }
  return 2;
}

std::string to_string(const WeightStorage& storage) {
  std::string text = to_string(storage.format);
  if (storage.group_size != WeightStorage{}.group_size) text += fmt::format(", groups of {}", storage.group_size);
  if (!storage.has_zeros) text += ", symmetric";
  return text + (storage.keeps_attention ? ", attention in bf16" : "");
}

namespace {

/// For a message: control characters and what goes on and on are left out.
std::string shown(std::string word) {
  std::erase_if(word, [](unsigned char c) { return std::iscntrl(c) != 0; });
  return word.size() > 40 ? word.substr(0, 40) + "..." : word;
}

}  // namespace

PublishedWeights read_published_weights(const std::vector<Value>& places, std::int64_t num_layers) {
  for (const Value& place : places) {
    for (const char* key : {"quantization_config", "quantization"}) {
      const Value quantization = place.at(key);
      if (!quantization.is_map()) continue;
      const auto format = format_of(quantization);
      if (format) {
        WeightStorage storage{.format = *format, .keeps_attention = keeps_attention(quantization, num_layers)};
        if (*format == WeightFormat::w4a16) read_groups(quantization, storage);
        return {to_string(*format), storage};
      }
      for (const char* name : {"quant_algo", "quant_method"}) {
        if (const std::string word = word_at(quantization, name); !word.empty()) return {shown(word), std::nullopt};
      }
      return {"quantized", std::nullopt};
    }
  }
  return {};
}

}  // namespace kvtide
