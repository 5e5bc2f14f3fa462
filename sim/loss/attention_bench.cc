// Speed of replayed attention beside the two matrix products in it, in float64: what the softmax, the checks and the figures of
// every position cost on top. The products are written plainly in Eigen and, where the machine has a BLAS, asked of that.

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdlib>

#include "base/testing/allocation_count.h"
#include "loss/attention_reference.h"
#include "loss/hand_made_heads.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kNumPositions = 2048;
constexpr std::int64_t kHeadDim = 64;

/// Multiply-adds of q k^T and of a v count two each.
void count_operations(benchmark::State& state, std::int64_t rows) {
  state.SetItemsProcessed(state.iterations() * rows * kNumPositions * kHeadDim * 4);
  state.SetLabel("floating-point operations of q k^T and a v");
}

void attention_reference(benchmark::State& state) {
  const kv::HeadTensors head = white_head(kNumPositions, state.range(0), kHeadDim);
  const AllocationCount allocations;
  for (auto _ : state) benchmark::DoNotOptimize(make_head_reference(head, {0, 1 << 20}));
  allocations.report(state, state.iterations() * kNumPositions);
  count_operations(state, state.range(0));
}
BENCHMARK(attention_reference)->Arg(12)->Arg(90)->Arg(512)->Unit(benchmark::kMillisecond);

/// The compressed side of it: every key and value read back with an error, every figure of every position.
void attention_replay(benchmark::State& state) {
  const kv::HeadTensors head = white_head(kNumPositions, state.range(0), kHeadDim);
  const HeadReference reference = make_head_reference(head, {0, 1 << 20});
  const kv::HeadCache cache = round_rows(head, 16);
  const AllocationCount allocations;
  for (auto _ : state) benchmark::DoNotOptimize(measure_head(reference, cache));
  allocations.report(state, state.iterations() * kNumPositions);
  count_operations(state, state.range(0));
}
BENCHMARK(attention_replay)->Arg(12)->Arg(90)->Arg(512)->Unit(benchmark::kMillisecond);

struct Factors {
  DoubleMatrix q, k, v, weights, outputs;
};

Factors factors_of(std::int64_t rows) {
  const kv::HeadTensors head = white_head(kNumPositions, rows, kHeadDim);
  return {head.q_post.cast<double>(), head.k_post.cast<double>(), head.v.cast<double>(),
          DoubleMatrix(rows, kNumPositions), DoubleMatrix(rows, kHeadDim)};
}

void attention_gemm(benchmark::State& state) {
  Factors of = factors_of(state.range(0));
  for (auto _ : state) {
    of.weights.noalias() = of.q * of.k.transpose();
    of.outputs.noalias() = of.weights * of.v;
    benchmark::DoNotOptimize(of.outputs.data());
    benchmark::ClobberMemory();
  }
  count_operations(state, state.range(0));
}
BENCHMARK(attention_gemm)->Arg(12)->Arg(90)->Arg(512)->Unit(benchmark::kMillisecond);

using Dgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                       const int*, const double*, const int*, const double*, double*, const int*);

/// The machine's BLAS on one thread; null where there is none. An OpenBLAS older than the processor takes it for the oldest one
/// and is told the registers it has, unless the environment says something.
Dgemm find_blas() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  } else if (__builtin_cpu_supports("avx2") != 0) {
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  }
#endif
  for (const char* name : {"libopenblas.so.0", "libblas.so.3"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (void* set = dlsym(library, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
    if (void* found = dlsym(library, "dgemm_")) return reinterpret_cast<Dgemm>(found);
  }
  return nullptr;
}

void attention_blas(benchmark::State& state) {
  static const Dgemm dgemm = find_blas();
  if (dgemm == nullptr) {
    state.SkipWithError("this machine has no BLAS");
    return;
  }
  Factors of = factors_of(state.range(0));
  const auto rows = static_cast<int>(state.range(0));
  const int positions = kNumPositions;
  const int channels = kHeadDim;
  const double one = 1;
  const double zero = 0;
  for (auto _ : state) {
    // Rows of ours are columns of Fortran's: weights' = k q', outputs' = v' weights'.
    dgemm("T", "N", &positions, &rows, &channels, &one, of.k.data(), &channels, of.q.data(), &channels, &zero,
          of.weights.data(), &positions);
    dgemm("N", "N", &channels, &rows, &positions, &one, of.v.data(), &channels, of.weights.data(), &positions, &zero,
          of.outputs.data(), &channels);
    benchmark::DoNotOptimize(of.outputs.data());
    benchmark::ClobberMemory();
  }
  count_operations(state, state.range(0));
}
BENCHMARK(attention_blas)->Arg(12)->Arg(90)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::loss
