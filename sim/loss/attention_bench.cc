// Speed of the attention reference beside the two matrix products in it, written plainly in Eigen: what the softmax,
// the checks and the figures of every position cost on top.

#include <benchmark/benchmark.h>

#include "loss/attention_reference.h"
#include "loss/hand_made_heads.h"

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
  for (auto _ : state) benchmark::DoNotOptimize(make_head_reference(head, {0, 1 << 20}));
  count_operations(state, state.range(0));
}
BENCHMARK(attention_reference)->Arg(12)->Arg(90)->Unit(benchmark::kMillisecond);

void attention_gemm(benchmark::State& state) {
  const kv::HeadTensors head = white_head(kNumPositions, state.range(0), kHeadDim);
  const DoubleMatrix q = head.q_post.cast<double>();
  const DoubleMatrix k = head.k_post.cast<double>();
  const DoubleMatrix v = head.v.cast<double>();
  DoubleMatrix weights(q.rows(), k.rows());
  DoubleMatrix outputs(q.rows(), v.cols());
  for (auto _ : state) {
    weights.noalias() = q * k.transpose();
    outputs.noalias() = weights * v;
    benchmark::DoNotOptimize(outputs.data());
    benchmark::ClobberMemory();
  }
  count_operations(state, state.range(0));
}
BENCHMARK(attention_gemm)->Arg(12)->Arg(90)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::loss
