// The one place where a profile meets the memory room: standard, channels and data rate become a MemoryDevice.
#include <algorithm>
#include <utility>

#include "base/data_directory.h"
#include "gpu/constant_rate_memory.h"
#include "gpu/gpu.h"
#include "gpu/memory/memory_device.h"
#include "gpu/memory/signature_store.h"

namespace kvtide::gpu {

namespace {

std::unique_ptr<MemoryModel> memory_of(const GpuProfile& profile, Fidelity fidelity) {
  // The closed form needs no timings, so a GPU whose memory standard is not described yet still has its roofline.
  const std::vector<std::string> standards = list_data_files("hw_profiles/memory", {".yaml"});
  if (fidelity == Fidelity::roofline && std::ranges::find(standards, profile.memory_standard) == standards.end()) {
    return std::make_unique<ConstantRateMemory>(profile.bandwidth, profile.read_efficiency);
  }
  MemoryDevice device;
  device.standard = load_memory_standard(profile.memory_standard);
  device.num_channels = profile.num_channels;
  device.data_rate = profile.data_rate;
  device.roofline_efficiency = profile.read_efficiency;
  device.queue_size = profile.memory_queue_size;
  device.refresh = profile.refreshes_bank_by_bank ? RefreshMode::per_bank : RefreshMode::all_bank;
  return make_memory_model(device, fidelity, signature_folder());
}

}  // namespace

Gpu::Gpu(const GpuProfile& profile, Fidelity fidelity) : Gpu(profile, memory_of(profile, fidelity)) {}

}  // namespace kvtide::gpu
