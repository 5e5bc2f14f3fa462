#pragma once
// What the weights of a checkpoint are stored in, and where it says so.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml_value.h"

namespace kvtide {

/// Of linear layers, by the names of vLLM's and LLM Compressor's schemes.
enum class WeightFormat : std::uint8_t {
  bf16,
  fp8,        ///< e4m3 both sides, one scale a tensor or row
  fp8_block,  ///< e4m3 both sides, one fp32 scale for 128 x 128 weights (DeepSeek-V3)
  w8a8,       ///< int8 both sides (SmoothQuant)
  w8a16,      ///< 8-bit weights alone
  w4a16,      ///< int4 weights alone, a 16-bit scale and mostly a 4-bit zero point for 128 (AWQ, GPTQ)
  nvfp4,      ///< fp4 both sides, an 8-bit scale for 16
  mxfp4,      ///< fp4 weights alone, an 8-bit scale for 32 (OCP Microscaling Formats 1.0)
};

[[nodiscard]] std::string to_string(WeightFormat format);
/// All names, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& weight_format_names();
/// Of one of these names.
[[nodiscard]] std::optional<WeightFormat> weight_format(std::string_view name);
/// What serving stacks and checkpoints call it: "awq_marlin", "modelopt_fp4", "FP8_BLOCK_SCALES", "w8a8_int8".
[[nodiscard]] std::optional<WeightFormat> weight_format_of_word(const std::string& word);

/// Linear layers of attention and of MLPs or experts. Embeddings, output layer, routers, norms and biases have 16 bits.
struct WeightStorage {
  WeightFormat format = WeightFormat::bf16;
  bool keeps_attention = false;   ///< the projections of attention have 16 bits, too (gpt-oss)
  std::int64_t group_size = 128;  ///< w4a16: weights that share a scale
  bool has_zeros = true;          ///< w4a16: and a 4-bit zero point
  bool operator==(const WeightStorage&) const = default;
};

/// Bytes of one weight, scales included. Example: w4a16 in groups of 128 0.5 + 2.5 / 128.
[[nodiscard]] double bytes_per_weight(const WeightStorage& storage);

/// Example: "mxfp4, attention in bf16"; "w4a16, groups of 32".
[[nodiscard]] std::string to_string(const WeightStorage& storage);

struct PublishedWeights {
  std::string name = "16 bit";  ///< of a format; the file's own word where it is not understood
  std::optional<WeightStorage> storage = WeightStorage{};  ///< none: not understood
};

/// What the first quantization_config (or quantization) in these maps says; without one, 16 bits.
/// @param num_layers  modules of most of them, or of all by a pattern, decide whether attention is left out
[[nodiscard]] PublishedWeights read_published_weights(const std::vector<config::Value>& places,
                                                      std::int64_t num_layers);

}  // namespace kvtide
