// Speed of the detailed tier in 32 B requests per second of one core, over the reference patterns; and of the three
// tiers.
//
//   kvtide-bench --benchmark_filter=Memory

#include <benchmark/benchmark.h>

#include "gpu/memory/closed_loop.h"

namespace kvtide::gpu {
namespace {

void detailed_requests(benchmark::State& state, const char* name, const char* pattern,
                       std::int64_t outstanding_per_pc) {
  const MemoryStandard standard = load_memory_standard(name);
  const MemoryDevice device{standard, standard.geometry.num_channels, standard.data_rate};
  const AddressMap map(standard.geometry, device.num_channels, AddressMapping::hash256);
  constexpr std::int64_t kRequests = 400000;
  for (auto _ : state) {
    ReferenceStream stream(parse_stream_pattern(pattern, 16384), map.capacity(), standard.geometry.burst_bytes());
    ClosedLoop loop(device,
                    {.mapping = AddressMapping::hash256,
                     .controller = {},
                     .max_outstanding = outstanding_per_pc * device.num_pseudo_channels(),
                     .num_requests = kRequests},
                    stream);
    loop.run_to_completion();
    benchmark::DoNotOptimize(loop.last_completion());
  }
  state.SetItemsProcessed(state.iterations() * kRequests);
}

#define KVTIDE_MEMORY_BENCH(standard, pattern)                                                       \
  BENCHMARK_CAPTURE(detailed_requests, standard##_##pattern, #standard, #pattern, std::int64_t{128}) \
      ->Name("Memory/" #standard "/" #pattern)                                                       \
      ->Unit(benchmark::kMillisecond)

KVTIDE_MEMORY_BENCH(hbm2, seq);
KVTIDE_MEMORY_BENCH(hbm2, paged_n64);
KVTIDE_MEMORY_BENCH(hbm2, gather256);
KVTIDE_MEMORY_BENCH(hbm2, random64);
KVTIDE_MEMORY_BENCH(hbm2, random32);
KVTIDE_MEMORY_BENCH(hbm3, seq);
KVTIDE_MEMORY_BENCH(hbm3, seq_w5);
KVTIDE_MEMORY_BENCH(hbm3, paged_n64);
KVTIDE_MEMORY_BENCH(hbm3, paged_n64_w5);
KVTIDE_MEMORY_BENCH(hbm3, gather256);
KVTIDE_MEMORY_BENCH(hbm3, gather2048);
KVTIDE_MEMORY_BENCH(hbm3, random64);
KVTIDE_MEMORY_BENCH(hbm3, random32);
KVTIDE_MEMORY_BENCH(hbm4, seq);
KVTIDE_MEMORY_BENCH(hbm4, gather256);
KVTIDE_MEMORY_BENCH(hbm4, random64);

void tier(benchmark::State& state, Fidelity fidelity) {
  const MemoryDevice h100{load_memory_standard("hbm3"), 80, 5.24e9};
  for (auto _ : state) {
    // A new model each time: nothing is remembered from the round before.
    benchmark::DoNotOptimize(make_memory_model(h100, fidelity)->measure({.chunk_bytes = 4096, .num_streams = 512}));
  }
}
BENCHMARK_CAPTURE(tier, roofline, Fidelity::roofline)->Name("Memory/tier/roofline");
BENCHMARK_CAPTURE(tier, sampled, Fidelity::sampled)->Name("Memory/tier/sampled_new")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tier, detailed, Fidelity::detailed)
    ->Name("Memory/tier/detailed")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

void memoised(benchmark::State& state) {
  const auto memory = make_memory_model({load_memory_standard("hbm3"), 80, 5.24e9}, Fidelity::sampled);
  for (auto _ : state) benchmark::DoNotOptimize(memory->measure({.chunk_bytes = 4096, .num_streams = 512}));
}
BENCHMARK(memoised)->Name("Memory/tier/sampled_known");

}  // namespace
}  // namespace kvtide::gpu
