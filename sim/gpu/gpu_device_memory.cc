// The one place where a profile meets the memory room: standard, channels and data rate become a MemoryDevice.
#include <utility>

#include "gpu/gpu.h"
#include "gpu/memory/memory_device.h"

namespace kvtide::gpu {

namespace {

std::unique_ptr<MemoryModel> memory_of(const GpuProfile& profile, Fidelity fidelity) {
  MemoryDevice device;
  device.standard = load_memory_standard(profile.memory_standard);
  device.num_channels = profile.num_channels;
  device.data_rate = profile.data_rate;
  device.queue_size = profile.memory_queue_size;
  return make_memory_model(device, fidelity);
}

}  // namespace

Gpu::Gpu(GpuProfile profile, Fidelity fidelity) : Gpu(profile, memory_of(profile, fidelity)) {}

}  // namespace kvtide::gpu
