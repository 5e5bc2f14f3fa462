// Speed of compression: each policy on layers the size of the recorded trace, and the integer codec beside a plain copy
// of the same bytes.

#include <benchmark/benchmark.h>

#include <cstring>
#include <numeric>

#include "base/random.h"
#include "base/testing/allocation_count.h"
#include "kv/compression/codec.h"
#include "kv/compression/compression.h"
#include "kv/compression/evicted_runs.h"
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

/// One head with a query at every position, for codecs that look at attention.
const HeadTensors& with_queries() {
  static const LayerTensors tensors = testing::random_layer(1, kNumPositions, kHeadDim, 1, 10000, true);
  return tensors.front();
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
  (void)scores();
  (void)layer();
  const AllocationCount allocations;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compress_layer(setting, kNumPositions, kNumHeads, kHeadDim, scores(), &layer()));
  }
  const std::int64_t num_tokens = state.iterations() * kNumHeads * kNumPositions;
  allocations.report(state, num_tokens);
  state.SetItemsProcessed(num_tokens);
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

/// Rows of values to encode: as many as one head of the recorded trace has (they stay in the processor's caches), or so
/// many that they come from memory, where a real cache lies. 64 MiB: twice that is beyond most last-level shares of a core.
RowMatrix rows_of(std::int64_t num_rows) {
  return layer().front().v.replicate(num_rows / kNumPositions, 1);
}
constexpr std::int64_t kFewRows = kNumPositions;
constexpr std::int64_t kManyRows = 1 << 18;

/// Encoding and decoding of float32 rows in place, in bytes of these rows, each of which is read once and written once at the
/// least: as kv_memcpy of as many does, the reference point.
template <typename Code>
void code_in_place(benchmark::State& state, Code code) {
  RowMatrix rows = rows_of(state.range(0));
  code(rows);  // tables made once
  const AllocationCount allocations;
  for (auto _ : state) {
    code(rows);
    benchmark::DoNotOptimize(rows.data());
    benchmark::ClobberMemory();
  }
  allocations.report(state, state.iterations() * rows.rows());
  state.SetBytesProcessed(state.iterations() * rows.size() * static_cast<std::int64_t>(sizeof(float)));
  state.SetLabel("float32 bytes encoded and decoded, each read and written");
}

void kv_codec(benchmark::State& state, const char* name, GroupAxis axis) {
  const Codec& codec = find_codec(name);
  Quantize stage;
  stage.v_axis = axis;
  const CodecUse use{&codec, &stage, false, kHeadDim};
  const std::vector<std::int64_t> block_rows(static_cast<std::size_t>(state.range(0) / 128), 128);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(state.range(0)));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  code_in_place(state, [&](RowMatrix& rows) { codec.code(use, {&rows, block_rows, positions, &layer().front()}); });
}
#define KVTIDE_CODEC_BENCHMARK(name, format, axis)           \
  BENCHMARK_CAPTURE(kv_codec, name, format, GroupAxis::axis) \
      ->Arg(kFewRows)                                        \
      ->Arg(kManyRows)                                       \
      ->Unit(benchmark::kMicrosecond)
KVTIDE_CODEC_BENCHMARK(int4_token, "int4", token);
KVTIDE_CODEC_BENCHMARK(int8_token, "int8", token);
KVTIDE_CODEC_BENCHMARK(int4_channel, "int4", channel);
KVTIDE_CODEC_BENCHMARK(int2_channel, "int2", channel);  // KIVI's keys; its values are int2_token
KVTIDE_CODEC_BENCHMARK(int2_token, "int2", token);
KVTIDE_CODEC_BENCHMARK(int8_per_token_head, "int8_per_token_head", token);
KVTIDE_CODEC_BENCHMARK(fp8_e4m3, "fp8_e4m3", token);
KVTIDE_CODEC_BENCHMARK(fp8_per_token_head, "fp8_per_token_head", token);
KVTIDE_CODEC_BENCHMARK(q8_0, "q8_0", token);
KVTIDE_CODEC_BENCHMARK(q4_0, "q4_0", token);
KVTIDE_CODEC_BENCHMARK(mxfp4, "mxfp4", token);
KVTIDE_CODEC_BENCHMARK(nvfp4, "nvfp4", token);

/// Every codec on the rows of one head, for the order of them; keys and values where a method stores them by different means.
void kv_every_codec(benchmark::State& state, const Codec* codec, bool is_key) {
  Quantize stage;
  const CodecUse use{codec, &stage, is_key, kHeadDim};
  const std::vector<std::int64_t> block_rows(kFewRows / 128, 128);
  std::vector<std::int64_t> positions(kFewRows);
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  code_in_place(state, [&](RowMatrix& rows) { codec->code(use, {&rows, block_rows, positions, &with_queries()}); });
}
const bool kEveryCodecIsListed = [] {
  for (const Codec& codec : codecs()) {
    if (codec.bits == 16) continue;  // fp16 does nothing, at any speed
    for (const bool is_key : {false, true}) {
      const std::string name = "kv_every_codec/" + std::string(codec.name) + (is_key ? "_keys" : "");
      benchmark::RegisterBenchmark(name.c_str(), kv_every_codec, &codec, is_key)
          ->Arg(kFewRows)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

void kv_memcpy(benchmark::State& state) {
  const RowMatrix source = rows_of(state.range(0));
  RowMatrix rows = source;
  const auto bytes = static_cast<std::size_t>(source.size()) * sizeof(float);
  for (auto _ : state) {
    std::memcpy(rows.data(), source.data(), bytes);
    benchmark::DoNotOptimize(rows.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.SetLabel("float32 bytes copied, each read and written");
}
BENCHMARK(kv_memcpy)->Arg(kFewRows)->Arg(kManyRows)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvtide::kv
