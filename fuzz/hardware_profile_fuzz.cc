// The same text as a GPU profile, a memory standard and an interconnect.

#include <vector>

#include "gpu/gpu.h"
#include "gpu/gpu_profile.h"
#include "gpu/interconnect.h"
#include "gpu/memory/memory_standard.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvtide::fuzz::expect_answer([&] {
    const auto profile = kvtide::gpu::parse_gpu_profile({reinterpret_cast<const char*>(data), size}, "hostile.yaml");
    (void)kvtide::gpu::Gpu(profile, kvtide::gpu::Fidelity::roofline);
  });
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] { (void)kvtide::gpu::load_memory_standard(file.path()); });
  kvtide::fuzz::expect_answer([&] {
    std::vector<kvtide::gpu::ProfileFact> facts;
    (void)kvtide::gpu::load_interconnect(file.path(), facts);
  });
  return 0;
}
