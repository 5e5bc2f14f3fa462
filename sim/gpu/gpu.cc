#include "gpu/gpu.h"

#include <utility>

#include "base/error.h"
#include "gpu/decode_attention.h"
#include "gpu/gemm.h"
#include "gpu/host_transfer.h"
#include "gpu/prefill_attention.h"
#include "gpu/quantize.h"
#include "gpu/stream_kernel.h"

namespace kvtide::gpu {

struct Gpu::Impl {
  GpuProfile profile;
  std::unique_ptr<MemoryModel> memory;
};

Gpu::Gpu(GpuProfile profile, std::unique_ptr<MemoryModel> memory) : impl_(std::make_unique<Impl>()) {
  KVTIDE_ASSERT(memory != nullptr, "a GPU needs a memory model");
  impl_->profile = std::move(profile);
  impl_->memory = std::move(memory);
}
Gpu::~Gpu() = default;
Gpu::Gpu(Gpu&&) noexcept = default;

const GpuProfile& Gpu::profile() const {
  return impl_->profile;
}
MemoryModel& Gpu::memory() {
  return *impl_->memory;
}

KernelTime Gpu::decode_attention(const DecodeAttentionWork& work, L2State l2) {
  return time_decode_attention(impl_->profile, *impl_->memory, work, l2);
}
KernelTime Gpu::prefill_attention(const PrefillAttentionWork& work, L2State l2) {
  return time_prefill_attention(impl_->profile, *impl_->memory, work, l2);
}
KernelTime Gpu::gemm(const GemmWork& work, L2State weights) {
  return time_gemm(impl_->profile, *impl_->memory, work, weights);
}
KernelTime Gpu::quantize(const QuantizeWork& work, L2State l2) {
  return time_quantize(impl_->profile, *impl_->memory, work, l2);
}
KernelTime Gpu::host_transfer(const HostTransferWork& work) const {
  return time_host_transfer(impl_->profile, work);
}
KernelTime Gpu::stream(const StreamWork& work) {
  return time_stream(impl_->profile, *impl_->memory, work);
}

}  // namespace kvtide::gpu
