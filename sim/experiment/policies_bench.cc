// Speed of policies beside a peer's: scores, choice and the compressed cache of 30 layers of 2,048 tokens, the recorded
// layers in turn. Names are the peer's, so that `kvtide bench policies` can put its processor seconds beside ours.
// Without the recorded trace (../shared/data) layers are drawn at random: the work is the same.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "attention/trace.h"
#include "experiment/validation/peer_method.h"
#include "kv/compression/importance.h"
#include "kv/testing/random_layer.h"
#include "loss/loss_meter.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kNumLayers = 30;
constexpr std::int64_t kNumPositions = 2048;
constexpr double kRemoved = 0.5;

struct Layer {
  kv::LayerTensors tensors;
  kv::RowMatrix output_projection;
};

std::vector<Layer> random_layers() {
  std::vector<Layer> layers;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Layer& layer = layers.emplace_back();
    layer.tensors = kv::testing::random_layer(3, kNumPositions, 64, seed, 100000, true);
    for (kv::HeadTensors& head : layer.tensors) {
      head.group_size = 3;
      head.q_post = head.q_post.replicate(3, 1).eval();
      head.q_pre = head.q_post;
    }
    layer.output_projection = kv::RowMatrix::Random(576, 576);
  }
  return layers;
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> loaded = [] {
    const std::string folder = KVTIDE_SOURCE_DIR "/../shared/data/";
    if (!std::filesystem::exists(folder + "smollm2-135m-trace-2k-more.h5")) return random_layers();
    const auto trace =
        attention::Trace::open(folder + "smollm2-135m-trace-2k.h5", folder + "smollm2-135m-trace-2k-more.h5");
    std::vector<Layer> recorded;
    for (std::int64_t layer = 0; layer < trace.num_layers(); ++layer) {
      recorded.push_back({trace.load_layer(layer), trace.output_projection(layer)});
    }
    return recorded;
  }();
  return loaded;
}

/// Scores, choice and cache of one layer; positions after the 2,048 follow exact.
kv::LayerCache compress(const PeerMethod& method, std::int64_t layer) {
  const Layer& source = layers()[static_cast<std::size_t>(layer) % layers().size()];
  const kv::Compression setting = at_ratio(method, kRemoved, kNumPositions, layer, kNumLayers);
  const auto& stage = std::get<kv::Evict>(setting.stages.front());
  const kv::LayerScores scores =
      kv::importance(setting, stage, source.tensors,
                     {.num_positions = kNumPositions, .output_projection = &source.output_projection, .seed = 1});
  return kv::compress_layer(setting, kNumPositions, static_cast<std::int64_t>(source.tensors.size()), 64, scores,
                            &source.tensors);
}

void policies(benchmark::State& state, const char* parameters) {
  const PeerMethod method = peer_method("bench", parameters);
  (void)layers();
  for (auto _ : state) {
    for (std::int64_t layer = 0; layer < kNumLayers; ++layer) benchmark::DoNotOptimize(compress(method, layer));
  }
  state.SetLabel("30 layers of 2,048 tokens");
}

#define KVTIDE_SNAPKV R"({"class": "SnapKVPress", "window_size": 64, "kernel_size": 5})"
#define KVTIDE_KNORM R"({"class": "KnormPress"})"
#define KVTIDE_KEYDIFF R"({"class": "KeyDiffPress"})"
#define KVTIDE_WRAPPED(name, inner, more) R"({"class": ")" name R"(", "press": )" inner more "}"

#define KVTIDE_POLICY(name, parameters) BENCHMARK_CAPTURE(policies, name, parameters)->Unit(benchmark::kMillisecond)
KVTIDE_POLICY(Random_seed0, R"({"class": "RandomPress"})");
KVTIDE_POLICY(Knorm, KVTIDE_KNORM);
KVTIDE_POLICY(SnapKV, KVTIDE_SNAPKV);
KVTIDE_POLICY(StreamingLLM, R"({"class": "StreamingLLMPress"})");
KVTIDE_POLICY(TOVA, R"({"class": "TOVAPress"})");
KVTIDE_POLICY(KeyDiff, KVTIDE_KEYDIFF);
KVTIDE_POLICY(PyramidKV, R"({"class": "PyramidKVPress"})");
KVTIDE_POLICY(NonCausalAttn, R"({"class": "NonCausalAttnPress"})");
KVTIDE_POLICY(LeverageScore, R"({"class": "LeverageScorePress"})");
KVTIDE_POLICY(Compactor, R"({"class": "CompactorPress"})");
KVTIDE_POLICY(Cap, R"({"class": "CapPress"})");
KVTIDE_POLICY(CriticalKV_SnapKV, KVTIDE_WRAPPED("CriticalKVPress", KVTIDE_SNAPKV, ""));
KVTIDE_POLICY(AdaKV_SnapKV, KVTIDE_WRAPPED("AdaKVPress", KVTIDE_SNAPKV, ""));
KVTIDE_POLICY(AdaKV_Knorm, KVTIDE_WRAPPED("AdaKVPress", KVTIDE_KNORM, ""));
KVTIDE_POLICY(CriticalAdaKV_SnapKV, KVTIDE_WRAPPED("CriticalAdaKVPress", KVTIDE_SNAPKV, ""));
KVTIDE_POLICY(ChunkKV20_SnapKV, KVTIDE_WRAPPED("ChunkKVPress", KVTIDE_SNAPKV, R"(, "chunk_length": 20)"));
KVTIDE_POLICY(ChunkKV20_Knorm, KVTIDE_WRAPPED("ChunkKVPress", KVTIDE_KNORM, R"(, "chunk_length": 20)"));
KVTIDE_POLICY(ChunkKV64_SnapKV, KVTIDE_WRAPPED("ChunkKVPress", KVTIDE_SNAPKV, R"(, "chunk_length": 64)"));
KVTIDE_POLICY(ChunkKV128_SnapKV, KVTIDE_WRAPPED("ChunkKVPress", KVTIDE_SNAPKV, R"(, "chunk_length": 128)"));
KVTIDE_POLICY(EntropyGatedChunkKV10_SnapKV, KVTIDE_WRAPPED("EntropyGatedChunkKVPress", KVTIDE_SNAPKV, ""));
KVTIDE_POLICY(Chunk256_Knorm, KVTIDE_WRAPPED("ChunkPress", KVTIDE_KNORM, R"(, "chunk_length": 256)"));
KVTIDE_POLICY(Block128_KeyDiff, KVTIDE_WRAPPED("BlockPress", KVTIDE_KEYDIFF, R"(, "block_size": 128)"));
KVTIDE_POLICY(Block64_Knorm, KVTIDE_WRAPPED("BlockPress", KVTIDE_KNORM, R"(, "block_size": 64)"));
KVTIDE_POLICY(Block64_KeyDiff, KVTIDE_WRAPPED("BlockPress", KVTIDE_KEYDIFF, R"(, "block_size": 64)"));
KVTIDE_POLICY(LagKV, R"({"class": "LagKVPress"})");
KVTIDE_POLICY(CUR, R"({"class": "CURPress"})");
KVTIDE_POLICY(ExpectedAttention, R"({"class": "ExpectedAttentionPress"})");
KVTIDE_POLICY(ObservedAttention, R"({"class": "ObservedAttentionPress"})");

/// K and V of 30 layers read once: the floor of what any policy costs.
void policies_read_tensors(benchmark::State& state) {
  (void)layers();
  for (auto _ : state) {
    for (std::int64_t layer = 0; layer < kNumLayers; ++layer) {
      for (const kv::HeadTensors& head : layers()[static_cast<std::size_t>(layer) % layers().size()].tensors) {
        benchmark::DoNotOptimize(head.k_post.topRows(kNumPositions).sum());
        benchmark::DoNotOptimize(head.v.topRows(kNumPositions).sum());
      }
    }
  }
  state.SetLabel("30 layers of 2,048 tokens");
}
BENCHMARK(policies_read_tensors)->Unit(benchmark::kMillisecond);

/// One policy at one ratio with the loss of every position, 30 layers: question and answer queries (2021..2047) on the
/// compressed first 2,048 tokens; the exact side was made before, once a trace.
void policies_whole_evaluation(benchmark::State& state) {
  const PeerMethod method = peer_method("bench", KVTIDE_SNAPKV);
  loss::AttentionReference reference({2021, 2047});
  for (std::int64_t layer = 0; layer < kNumLayers; ++layer) {
    reference.add_layer(layers()[static_cast<std::size_t>(layer) % layers().size()].tensors);
  }
  for (auto _ : state) {
    std::vector<kv::LayerCache> caches;
    for (std::int64_t layer = 0; layer < kNumLayers; ++layer) caches.push_back(compress(method, layer));
    benchmark::DoNotOptimize(loss::measure_loss(reference, caches, loss::HeadReduction::reader));
  }
  state.SetLabel("30 layers of 2,048 tokens");
}
BENCHMARK(policies_whole_evaluation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::experiment
