// Requests simulated a second: Llama-3-8B on one A100-80GB by vLLM's rules, step times from the modeled machine. The trace is the
// conversation part of the Azure LLM inference trace of 2023 (19,366 requests); without it (../shared/data) one of the same length with
// lengths drawn at random. Vidur 0.1.1's published figure for such a run is 630 to 770 requests/s.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/random.h"
#include "base/testing/allocation_count.h"
#include "gpu/testing/llama_on_h100.h"
#include "serving/captured_batch.h"
#include "serving/machine_step_time.h"
#include "serving/serving_run.h"

namespace kvtide::serving {
namespace {

const RequestTrace& azure_conversations() {
  static const RequestTrace trace = [] {
    const std::string path = KVTIDE_SOURCE_DIR "/../shared/data/requests/azure2023_conv.csv";
    if (std::filesystem::exists(path)) return load_requests(path);
    RandomStream random(1, "azure-like");
    RequestTrace drawn;
    double seconds = 0;
    for (int i = 0; i < 19'366; ++i) {
      seconds -= std::log(1 - random.uniform()) / 5.5;
      drawn.requests.push_back({.arrival = from_seconds(seconds),
                                .input_tokens = 1 + static_cast<std::int64_t>(random.below(2300)),
                                .output_tokens = 1 + static_cast<std::int64_t>(random.below(420)),
                                .shared_blocks = {}});
    }
    return drawn;
  }();
  return trace;
}

MachineStepTime::Options llama_3_8b() {
  return {.iteration = gpu::testing_support::llama(), .largest_capture = 512};
}

// 79.35 GiB x 0.9 - 15.0 GiB of weights - 1.5 GiB: 54.9 GiB in blocks of 2 MiB.
constexpr EngineSettings kEngine{.num_blocks = 28'100, .max_num_seqs = 256, .max_num_batched_tokens = 8192};

/// Machine, price list and scheduler made anew each time: what a first call costs.
void serving_azure_conversation_cold(benchmark::State& state) {
  const RequestTrace& trace = azure_conversations();
  for (auto unused : state) {
    gpu::Gpu gpu(gpu::load_gpu_profile("a100-sxm-80gb"), gpu::Fidelity::roofline);
    MachineStepTime step_time(gpu, llama_3_8b());
    benchmark::DoNotOptimize(serve(trace, kEngine, step_time).makespan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.requests.size()));
}
BENCHMARK(serving_azure_conversation_cold)->Unit(benchmark::kMillisecond);

/// The price list is kept, as in a plan's candidates that share a machine.
void serving_azure_conversation(benchmark::State& state) {
  const RequestTrace& trace = azure_conversations();
  gpu::Gpu gpu(gpu::load_gpu_profile("a100-sxm-80gb"), gpu::Fidelity::roofline);
  MachineStepTime step_time(gpu, llama_3_8b());
  const AllocationCount allocations;
  for (auto unused : state) benchmark::DoNotOptimize(serve(trace, kEngine, step_time).makespan);
  allocations.report(state, state.iterations() * static_cast<std::int64_t>(trace.requests.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.requests.size()));
}
BENCHMARK(serving_azure_conversation)->Unit(benchmark::kMillisecond);

/// A million requests, streamed: memory stays that of the requests in flight.
void serving_million_requests(benchmark::State& state) {
  const RequestTrace& trace = azure_conversations();
  gpu::Gpu gpu(gpu::load_gpu_profile("a100-sxm-80gb"), gpu::Fidelity::roofline);
  MachineStepTime step_time(gpu, llama_3_8b());
  std::int64_t num_requests = 0;
  const AllocationCount allocations;
  for (auto unused : state) {
    TraceSource source(trace, 52, from_seconds(1));
    num_requests += serve(source, kEngine, step_time, {.on_request = [](const RequestTimes&) {}}).num_requests;
  }
  allocations.report(state, num_requests);
  state.SetItemsProcessed(num_requests);
}
BENCHMARK(serving_million_requests)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace kvtide::serving
