#pragma once
// The kernels that frameworks run on one GPU architecture, as calibrated records: hw_profiles/kernel_sets/<name>.yaml.
// A profile names one set. A GPU nobody has measured names the set of the nearest architecture: its SMs, clocks and
// bandwidths are its own, only the kernels' few constants are borrowed, so no operation is refused for want of a record.

#include <string>
#include <vector>

#include "gpu/gemm_kernel.h"
#include "gpu/prefill_kernel.h"
#include "gpu/quantize_kernel.h"

namespace kvtide::gpu {

struct KernelSet {
  std::string name;  ///< "hopper"
  double matmul_share =
      0;  ///< of the datasheet's 16-bit rate that large products reach on the calibrated GPU; 0: unknown
  std::vector<PrefillKernel> prefill;    ///< at least one; the first framework is the default
  std::vector<GemmKernel> gemm;          ///< the same
  std::vector<QuantizeKernel> quantize;  ///< the same

  /// The record of the wanted name, else the first of the wanted framework that serves the work, else the first that
  /// does, else the first: another framework's kernel is a better guess than no time at all.
  [[nodiscard]] const PrefillKernel& prefill_kernel(const PrefillAttentionWork& work) const;
  [[nodiscard]] const GemmKernel& gemm_kernel(const GemmWork& work) const;
  [[nodiscard]] const QuantizeKernel& quantize_kernel(const QuantizeWork& work) const;
};

/// @throws InputError  unknown name, with the known ones; wrong or missing keys
[[nodiscard]] KernelSet load_kernel_set(const std::string& name_or_path, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu
