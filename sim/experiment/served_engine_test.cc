#include "experiment/served_engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experiment/loss_evaluation.h"
#include "experiment/resolved_compression.h"
#include "experiment/served_decode.h"

namespace kvtide::experiment {
namespace {

/// A run on an H100 and what its serving half is made of.
struct Served {
  Run run;
  Model model;
  gpu::Gpu gpu;
  kv::Compression setting;
  std::shared_ptr<const kv::RecordedScores> scores;
  std::int64_t context = 0;
  CompressedShare share;
  serving::CacheGrowth growth;

  Served(const std::string& model_name, std::int64_t context_tokens, const std::string& compression)
      : run(parse_experiment(fmt::format("name: t\nmodel: {}\ngpu: h100-sxm\nfidelity: roofline\nbatch: 8\n"
                                         "trace: {{synthetic: {{kind: uniform, tokens: 256}}}}\ncontext_tokens: {}\n"
                                         "compression: {}\n"
                                         "workload: {{closed_loop: {{users: 8, input_tokens: 64, output_tokens: 64, "
                                         "requests: 8}}}}\n",
                                         model_name, context_tokens, compression),
                             "test", ".")
                .runs.front()),
        model(load_model(model_name)),
        gpu(gpu::load_gpu_profile("h100-sxm"), gpu::Fidelity::roofline),
        context(context_tokens) {
    const TraceInputs trace(run.setting.trace, run.setting.loss, run.setting.seed);
    setting = resolved_compression(run, trace);
    scores = scores_for(setting, run.setting.layer_budget, trace);
    share = compressed_share(run, setting, model, *scores, context);
    growth = cache_growth(model, setting, share, context);
  }
};

// 8 layers keep all, 40 a window of 1,024; 8 KV heads of 256 channels are 8,192 B a layer and token. 8 x 8,192 x 32,768 = 2 GiB and
// 40 x 8,192 x 1,024 = 0.3125 GiB; all layers at full length would be 12 GiB.
TEST(ServedEngine, WindowsAreStoredAtTheirLength) {
  const Served served("gemma-3-12b", 32768, "none");
  const serving::MemoryAccount account = memory_account(served.run, served.model, served.gpu.profile(), 1);
  EXPECT_EQ(account.kv_bytes_per_token, 8 * 8192);
  EXPECT_EQ(served.growth.window, 1024);
  EXPECT_EQ(served.growth.window_weight, 5);
  const std::int64_t entries = served.growth.held(32768) + served.growth.window_entries(32768);
  EXPECT_EQ(entries * 8 * 8192, (std::int64_t{2} << 30) + (std::int64_t{5} << 26));
}

// vLLM 0.10.1 on one H100 loaded gpt-oss-120b into 65.97 GiB and had -2.14 GiB left for the cache (vllm-project/vllm#23278: 0.9 of the
// memory, 1,024 sequences, 8,192 tokens a step); with 0.95 of it and 1,024 tokens a step another had 1.71 GiB, too little for the 131,072
// positions of the model (#27508).
TEST(ServedEngine, GptOssLeavesAnH100AsLittleAsTheLogsSay) {
  Served served("gpt-oss-120b", 4096, "none");
  EXPECT_NEAR(static_cast<double>(weight_bytes_per_gpu(served.model, served.run.setting)) / kGiB, 65.97, 0.1);
  const auto left_gib = [&](double share, std::int64_t step_tokens) {
    ServingSetting& engine = *served.run.setting.serving;
    engine.memory_share = share;
    engine.max_num_seqs = 1024;
    engine.max_num_batched_tokens = step_tokens;
    return memory_account(served.run, served.model, served.gpu.profile(), 1).kv_bytes() / kGiB;
  };
  EXPECT_NEAR(left_gib(0.9, 8192), -2.14, 0.7);
  EXPECT_NEAR(left_gib(0.95, 1024), 1.71, 0.7);
}

// Mixtral's experts of 4,096 x 14,336 are multiples of 256 and 128.
TEST(ServedEngine, OnlySizesThatKernelsDoNotTakeArePadded) {
  Served served("mixtral-8x7b", 4096, "none");
  served.run.setting.weights = served.model.stored_in(WeightFormat::mxfp4);
  EXPECT_EQ(weight_bytes_per_gpu(served.model, served.run.setting),
            served.model.weight_bytes(served.run.setting.weights));
  // 2,880 / 8 = 360 rows of an expert become 384 on each of 8 ranks, 2,880 columns 3,072: 36 layers, 128 experts, 4.25 bits.
  Served gpt_oss("gpt-oss-120b", 4096, "none");
  gpt_oss.run.setting.tensor_parallel = 8;
  const double stored = static_cast<double>(gpt_oss.model.weight_bytes(gpt_oss.run.setting.weights)) / 8;
  EXPECT_NEAR(static_cast<double>(weight_bytes_per_gpu(gpt_oss.model, gpt_oss.run.setting)),
              stored + 36.0 * 128 * 3 * (384 * 3072 - 360 * 2880) * 4.25 / 8, 1e3);
}

// The same with a byte an element in every layer: half of each, so that a window still counts five of an entry.
TEST(ServedEngine, WindowsAreQuantizedWithTheRestWhereEveryEntryIs) {
  const Served served("gemma-3-12b", 32768, "{preset: fp8}");
  EXPECT_NEAR(served.share.bytes, 0.5, 0.001);
  EXPECT_NEAR(served.growth.window_weight, 5, 0.01);
  const serving::MachineStepTime::Options options =
      step_options(served.run, served.setting, served.model, *served.scores, served.share.bytes, 32768);
  for (const gpu::CachedLayer& layer : options.iteration.cache) {
    EXPECT_EQ(layer.entry_bytes, 512U) << layer.window;  // 256 channels of K and V, a head
    EXPECT_EQ(layer.fp8_entries, 1) << layer.window;
  }
}

// Mistral's first model has a window of 4,096 in all of its layers: 131,072 B a token, or half of it.
TEST(ServedEngine, AModelOfWindowsAloneHasThemQuantized) {
  const Served plain("mistral-7b-v0.1", 8192, "none"), fp8("mistral-7b-v0.1", 8192, "{preset: fp8}");
  EXPECT_EQ(plain.growth.window_weight, 1);
  EXPECT_NEAR(fp8.growth.window_weight, 1, 0.001);
  const auto token_bytes = [](const Served& served) {
    return memory_account(served.run, served.model, served.gpu.profile(), served.share.bytes).kv_bytes_per_token;
  };
  EXPECT_EQ(token_bytes(plain), 131072);
  EXPECT_NEAR(token_bytes(fp8), 65536, 100);
}

// A token of Llama-3.1-8B is 4,096 B a layer. Of 32 layers on 31 stages one stage holds 2 and is full first; on 3 stages 11.
TEST(ServedEngine, TheStageWithMostLayersIsFullFirst) {
  Served served("llama-3.1-8b", 4096, "none");
  for (const auto& [stages, layers] : {std::pair{31, 2}, {32, 1}, {16, 2}, {3, 11}}) {
    served.run.setting.pipeline_parallel = stages;
    const serving::MemoryAccount account = memory_account(served.run, served.model, served.gpu.profile(), 1);
    EXPECT_DOUBLE_EQ(account.kv_bytes_per_token, layers * 4096) << stages;
  }
}

// DeepSeek-V2 stores 512 latent and 64 rotary channels a token; its kernel's products are 544 wide in the mean.
TEST(ServedEngine, ALatentLayerHasTheWidthThatIsStored) {
  const Served served("deepseek-v2", 4096, "none");
  const kv::CacheTimeline cache({served.model, served.setting}, *served.scores, served.context);
  EXPECT_EQ(cache.attention().at(0).work.head_dim, 544);
  EXPECT_EQ(decoder_shape(served.model, served.run.setting, cache.attention()).layers.at(0).head_dim, 576);
}

// What is evicted are entries of the 8 whole layers; each stays as it was.
TEST(ServedEngine, AnEvictionLeavesEntriesOfTheirSize) {
  for (const char* model : {"llama-3.1-8b", "gemma-3-12b"}) {
    const Served served(model, 32768, "{preset: streamingllm}");
    EXPECT_LT(served.share.entries, 1) << model;
    EXPECT_NEAR(served.share.bytes, 1, 0.01) << model;
    EXPECT_LT(served.growth.keep_ratio, 1) << model;
  }
}

/// Serving's step times over the contexts of the machine's last period of steps, as a share of the machine's.
double step_ratio(Served& served) {
  const std::int64_t period = compression_period(served.setting, {});
  const std::int64_t num_steps = num_decode_steps(served.setting, {}, served.context);
  const SteppedDecode machine =
      step_through(served.run, served.setting, served.model, served.gpu, *served.scores, num_steps);
  serving::MachineStepTime step_time(served.gpu, step_options(served.run, served.setting, served.model, *served.scores,
                                                              served.share.bytes, served.context));
  const std::int64_t batch = served.run.setting.batch;
  double expected = 0, got = 0;
  const std::int64_t count = std::min(period, num_steps);
  for (std::int64_t step = num_steps - count; step < num_steps; ++step) {
    expected += to_seconds(machine.records[static_cast<std::size_t>(step)].duration);
    const std::int64_t length = machine.first_position + step;
    const serving::CacheGrowth& growth = served.growth;
    serving::StepShape shape{.prefills = {}, .num_decodes = batch, .num_rows = batch};
    shape.decode_kv_tokens = batch * (growth.held(length - 1) + 1);
    if (growth.has_bursts()) {
      shape.compressed_tokens = batch * (growth.compressed(length) - growth.compressed(length - 1));
    }
    got += to_seconds(step_time.duration(shape));
  }
  return got / expected;
}

// One cache, two observers: whatever a step reads, converts, rebuilds or compresses, serving prices as the machine does.
TEST(ServedEngine, StepTimesAreThoseOfTheMachine) {
  for (const char* compression :
       {"none", "{preset: fp8}", "{preset: palu}", "{preset: palu-int4}", "{preset: quest}", "{preset: arkvale}",
        "{preset: block-svd}", "{preset: int4}", "{preset: kivi-int4}", "{preset: pool-4}", "{preset: streamingllm}",
        "{block_size: 64, stages: [{quantize: {format: int4, group: 32}}]}"}) {
    Served served("llama-3.1-8b", 8192, compression);
    EXPECT_NEAR(step_ratio(served), 1, 0.01) << compression;
  }
}

// KV heads 0..3 of 8 keep all, 4..7 the 320 protected positions: on one GPU (8,192 + 320) / 2 of 8,192 entries, on two or more
// the first rank
// has whole heads alone. Its blocks are the engine's, and its attention is what a step waits for.
TEST(ServedEngine, TheFullestRankDecides) {
  const auto file = std::filesystem::temp_directory_path() / "kvtide-served-heads.tsv";
  {
    std::ofstream table(file);
    for (int layer = 0; layer < 32; ++layer) table << "0.9\t0.9\t0.9\t0.9\t0.1\t0.1\t0.1\t0.1\n";
  }
  Served served("llama-3.1-8b", 8192, "{preset: duoattention, share: 0.5, heads_file: " + file.string() + "}");
  std::filesystem::remove(file);
  EXPECT_NEAR(served.share.entries, (8192 + 320) / 2.0 / 8192, 1e-3);
  for (const int ranks : {2, 8}) {
    served.run.setting.tensor_parallel = ranks;
    served.share = compressed_share(served.run, served.setting, served.model, *served.scores, served.context);
    served.growth = cache_growth(served.model, served.setting, served.share, served.context);
    EXPECT_DOUBLE_EQ(served.share.entries, 1) << ranks;
    EXPECT_EQ(served.growth.held(8192), 8192) << ranks;
    EXPECT_NEAR(step_ratio(served), 1, 0.01) << ranks;
  }
}

// A prompt's blocks are decomposed when it is complete. Blocks of 128 tokens in 8 heads: 32,768 tokens are 2,048 thread blocks, 16 waves on
// 132 SMs, and four times as many 63 waves. A block of K and V is at least 2 x 20 x 128^3 flop, 32 layers of 2,048 5.5e12, at 33.5
// TFLOP/s (half of what the CUDA cores have) 0.16 s.
TEST(ServedEngine, APromptsBlocksAreCompressed) {
  Served served("llama-3.1-8b", 32768, "{preset: block-svd}");
  serving::MachineStepTime step_time(served.gpu, step_options(served.run, served.setting, served.model, *served.scores,
                                                              served.share.bytes, served.context));
  const auto seconds = [&](std::int64_t compressed) {
    serving::StepShape shape{.prefills = {{.tokens = 512, .kv_before = 0}}, .num_rows = 1};
    shape.compressed_tokens = compressed;
    return to_seconds(step_time.duration(shape));
  };
  const double none = seconds(0);
  EXPECT_GT(seconds(1 << 15) - none, 0.16);
  EXPECT_NEAR((seconds(1 << 17) - none) / (seconds(1 << 15) - none), 63.0 / 16, 0.05);
}

}  // namespace
}  // namespace kvtide::experiment
