#pragma once
// A GEMM library as a framework calls it, as data: which shapes and formats it gets, and the few costs that no datasheet
// tells. Records stand in hw_profiles/kernel_sets/<architecture>.yaml.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "config/yaml_value.h"
#include "gpu/attention_kernel.h"
#include "gpu/kernel_work.h"
#include "gpu/operand_format.h"

namespace kvtide::gpu {

/// Times in seconds.
struct GemmKernel {
  std::string name;
  std::string framework;
  OperandFormat format = OperandFormat::bfloat16;
  std::int64_t min_m = 1;  ///< activation rows
  std::int64_t max_m = std::int64_t{1} << 40;
  std::int64_t n_multiple = 1;  ///< serves only n that are a multiple of it
  std::int64_t k_multiple = 1;

  double fixed_time = 0;            ///< ramp, epilogue and small kernels before it, once a call (launch not included)
  double task_time = 0;             ///< of one thread block
  double combine_time = 0;          ///< second kernel that sums the parts of a split k; only when it is split
  std::int64_t max_splits = 1;      ///< parts of k
  std::int64_t smallest_tile = 32;  ///< rows and columns of a tile are at least this (block-scaled formats: 128)
  double converted_per_cycle = 0;   ///< weights that an SM brings to 16 bits in a clock, once a tile; 0: hidden
  double tensor_efficiency = 0;     ///< of the tensor throughput in a full wave of tiles, 0..1
  Bytes bytes_in_flight = 0;        ///< per SM, of operands requested and not yet returned
  double pass_bytes = 0;            ///< moved for each activation element by the kernels that quantize activations
  double row_time = 0;              ///< SM-seconds for each activation row in those kernels
  double host_time = 0;             ///< the host needs this long to submit a call; it passes unseen in a CUDA graph

  [[nodiscard]] bool serves(const GemmWork& work) const;
};

/// Errors go to the document of `map`.
[[nodiscard]] GemmKernel read_gemm_kernel(const config::Value& map, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu
