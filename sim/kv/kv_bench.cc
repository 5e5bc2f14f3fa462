// Speed of compression: each policy on layers the size of the recorded trace, and the integer codec beside a plain copy
// of the same bytes.

#include <benchmark/benchmark.h>

#include <cstring>

#include "base/random.h"
#include "kv/compression/compression.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/integer_codec.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kNumHeads = 3;
constexpr std::int64_t kNumPositions = 2048;
constexpr std::int64_t kHeadDim = 64;

const LayerTensors& layer() {
  static const LayerTensors tensors = testing::random_layer(kNumHeads, kNumPositions, kHeadDim, 1);
  return tensors;
}

const LayerScores& scores() {
  static const LayerScores values = [] {
    RandomStream random(1, "bench.scores");
    LayerScores drawn(kNumHeads);
    for (auto& of_head : drawn) {
      for (std::int64_t position = 0; position < kNumPositions; ++position) of_head.push_back(random.uniform());
    }
    return drawn;
  }();
  return values;
}

/// Tokens of one KV head compressed a second, decisions and numbers.
void kv_compress(benchmark::State& state, const std::vector<Stage>& stages) {
  Compression setting;
  setting.stages = stages;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compress_layer(setting, kNumPositions, kNumHeads, kHeadDim, scores(), &layer()));
  }
  state.SetItemsProcessed(state.iterations() * kNumHeads * kNumPositions);
  state.SetLabel("tokens of a KV head");
}
BENCHMARK_CAPTURE(kv_compress, identity, std::vector<Stage>{})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, evict_block, std::vector<Stage>{Evict{}})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, evict_token, std::vector<Stage>{Evict{.granularity = Granularity::token}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, pool, std::vector<Stage>{Pool{}})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, low_rank, std::vector<Stage>{LowRank{}})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, int8, std::vector<Stage>{Quantize{.k_format = "int8", .v_format = "int8"}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, int4, std::vector<Stage>{Quantize{}})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_compress, evict_block_int4, std::vector<Stage>{Evict{}, Quantize{}})
    ->Unit(benchmark::kMicrosecond);

/// Decisions alone, as a scan over grid offsets asks them.
void kv_evicted_runs(benchmark::State& state) {
  Compression setting;
  setting.stages = {Evict{}};
  for (auto _ : state) {
    setting.grid_offset = (setting.grid_offset + 1) % setting.block_size;
    benchmark::DoNotOptimize(evicted_runs(setting, kNumPositions, scores()));
  }
  state.SetItemsProcessed(state.iterations() * kNumHeads * kNumPositions);
  state.SetLabel("tokens of a KV head");
}
BENCHMARK(kv_evicted_runs)->Unit(benchmark::kMicrosecond);

/// Encoding and decoding of float32 rows in place, in bytes of these rows. kv_memcpy is its reference point.
void kv_integer_codec(benchmark::State& state, std::int32_t bits, GroupAxis axis) {
  const RowMatrix source = layer().front().v;
  const IntegerGroups format{.bits = bits};
  RowMatrix rows;
  for (auto _ : state) {
    rows = source;
    quantize_rows(rows, 0, rows.rows(), format, axis);
    benchmark::DoNotOptimize(rows.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * source.size() * static_cast<std::int64_t>(sizeof(float)));
  state.SetLabel("float32 bytes encoded and decoded");
}
BENCHMARK_CAPTURE(kv_integer_codec, int4_token, 4, GroupAxis::token)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_integer_codec, int4_channel, 4, GroupAxis::channel)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kv_integer_codec, int8_token, 8, GroupAxis::token)->Unit(benchmark::kMicrosecond);

void kv_memcpy(benchmark::State& state) {
  const RowMatrix source = layer().front().v;
  RowMatrix rows(source.rows(), source.cols());
  const auto bytes = static_cast<std::size_t>(source.size()) * sizeof(float);
  for (auto _ : state) {
    std::memcpy(rows.data(), source.data(), bytes);
    benchmark::DoNotOptimize(rows.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.SetLabel("float32 bytes copied");
}
BENCHMARK(kv_memcpy)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvtide::kv
