#pragma once
// A modeled GPU: profile (SMs, clocks, L2, HBM), fidelity of its memory, and the time its kernels take.

#include <memory>
#include <string>
#include <vector>

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// What a previous kernel left in L2: serving evicts a layer's KV between steps (cold); benchmarks replay it (warm).
enum class L2State : std::uint8_t { cold, warm };

class Gpu {
 public:
  Gpu(GpuProfile profile, Fidelity fidelity);
  ~Gpu();
  Gpu(Gpu&&) noexcept;

  [[nodiscard]] const GpuProfile& profile() const;
  [[nodiscard]] MemoryModel& memory();

  // Deterministic; safe to call from several threads.
  [[nodiscard]] KernelTime decode_attention(const DecodeAttentionWork& work, L2State l2 = L2State::cold);
  [[nodiscard]] KernelTime gemm(const GemmWork& work);
  [[nodiscard]] KernelTime compress_blocks(const CompressBlocksWork& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvtide::gpu
