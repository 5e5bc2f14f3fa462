#pragma once
// Number formats of a linear layer: what its weights and activations weigh, and which tensor-core rate they reach.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide::gpu {

struct GpuProfile;

/// Spelled as in the tables of aiconfigurator-core, which has no rows of fp4 weights alone: they take the kernels of int4_wo.
enum class OperandFormat : std::uint8_t {
  bfloat16,
  fp8,        ///< both sides, one scale a tensor or a row
  fp8_block,  ///< both sides, one fp32 scale for 128 activations and for 128 x 128 weights
  sq,         ///< SmoothQuant: int8 both sides
  int8_wo,    ///< int8 weights, 16-bit activations
  int4_wo,    ///< int4 weights, 16-bit activations
  nvfp4,      ///< fp4 both sides, one fp8 scale for 16 elements
  nvfp4_wo,   ///< the same weights, 16-bit activations
  mxfp4_wo,   ///< fp4 weights with an 8-bit scale for 32, 16-bit activations
};

[[nodiscard]] std::string_view to_string(OperandFormat format);
/// @return false where no format has that name; `format` then stays as it was
[[nodiscard]] bool from_string(std::string_view text, OperandFormat& format);
/// All names, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& operand_format_names();

/// Bytes of one stored element, scales included: fp8_block 1 + 4 / 16,384 for weights, 1 + 4 / 128 for activations.
[[nodiscard]] double weight_bytes(OperandFormat format);
[[nodiscard]] double activation_bytes(OperandFormat format);

/// FLOP/s over the device. Where a GPU has no tensor cores for the format, and where only the weights are narrow, they are
/// brought to 16 bit in registers and multiplied at that rate (fp8 on A100; int8_wo and int4_wo everywhere).
/// Approximation: the conversion is hidden; A100's int8_wo and int4_wo rows show no cost of it.
[[nodiscard]] double tensor_rate(const GpuProfile& profile, OperandFormat format);

/// What engines make of weights in that format: where a GPU has no tensor cores for it, activations keep 16 bits (Marlin in vLLM).
/// Examples: fp8 is int8_wo on an A100 (a byte a weight either way), nvfp4 is nvfp4_wo on an H100.
[[nodiscard]] OperandFormat executed_format(const GpuProfile& profile, OperandFormat format);

}  // namespace kvtide::gpu
