#pragma once
// A modeled GPU: profile (SMs, clocks, L2, HBM), fidelity of its memory, and the time its kernels take.

#include <memory>
#include <string>
#include <vector>

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

class Gpu {
 public:
  /// The profile's memory standard, channels and data rate at the given fidelity. @throws InputError
  Gpu(const GpuProfile& profile, Fidelity fidelity);
  /// The same machine over any other memory (a what-if, a test). @param memory not null
  Gpu(GpuProfile profile, std::unique_ptr<MemoryModel> memory);
  ~Gpu();
  Gpu(Gpu&&) noexcept;

  [[nodiscard]] const GpuProfile& profile() const;
  [[nodiscard]] MemoryModel& memory();

  // Deterministic; safe to call from several threads. @throws InputError on work out of range
  [[nodiscard]] KernelTime decode_attention(const DecodeAttentionWork& work, L2State l2 = L2State::cold);
  [[nodiscard]] KernelTime prefill_attention(const PrefillAttentionWork& work, L2State l2 = L2State::cold);
  [[nodiscard]] KernelTime gemm(const GemmWork& work, L2State weights = L2State::cold);
  [[nodiscard]] KernelTime quantize(const QuantizeWork& work, L2State l2 = L2State::warm);
  [[nodiscard]] KernelTime stream(const StreamWork& work);
  [[nodiscard]] KernelTime compress_blocks(const CompressBlocksWork& work) { return stream(work); }
  [[nodiscard]] KernelTime host_transfer(const HostTransferWork& work) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvtide::gpu
