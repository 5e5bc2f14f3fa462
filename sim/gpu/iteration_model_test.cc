#include "gpu/iteration_model.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "gpu/testing/llama_on_h100.h"

namespace kvtide::gpu {
namespace {

using testing_support::h100;
using testing_support::llama;

KernelClassTime class_of(const Iteration& iteration, const std::string& kernel_class) {
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == kernel_class) return sums;
  }
  return {};
}
Bytes attention_bytes(const Iteration& iteration) {
  return class_of(iteration, "attention").hbm_bytes;
}

/// Llama's layers in E4M3 under one scale: 2 x 128 B an entry of a head, all converted where no kernel takes the codes.
IterationModel::Options llama_fp8() {
  IterationModel::Options options = llama();
  options.cache[0].entry_bytes = 256;
  options.cache[0].dequantized_elements = 256;
  options.cache[0].fp8_entries = options.cache[0].fp8_bytes = 1;
  return options;
}

/// 4 decoding sequences of 1,024 entries beside a prompt of 16 tokens.
const BatchShape kMixedStep{.decode_lengths = {1024, 1024, 1024, 1024}, .chunks = {{16, 0}}};

// Lengths 100 and 97 lie in 7 pages of 16, 2000 in 125: (2 x 112 + 2000) entries x 131,072 B.
TEST(IterationModel, MixedLengthsAreReadInWholePages) {
  Gpu gpu = h100();
  IterationModel model(gpu, llama());
  EXPECT_EQ(attention_bytes(model.iteration({.decode_lengths = {100, 2000, 97}, .chunks = {}})), 2224u * 131072u);
}

TEST(IterationModel, TheSameMixIsTimedOnceWhateverItsOrder) {
  Gpu gpu = h100();
  IterationModel model(gpu, llama());
  const Picoseconds first = model.step({.decode_lengths = {100, 2000}, .chunks = {{512, 0}}});
  const Picoseconds again = model.step({.decode_lengths = {1999, 112}, .chunks = {{512, 0}}});
  EXPECT_EQ(first, again);
  EXPECT_EQ(model.num_lookups(), 2);
  EXPECT_EQ(model.num_known(), 1);
  EXPECT_EQ(model.step({}).count(), 0);
}

// Keep 0.5 with 64 positions always kept: 4096 -> 64 + 2016 = 2080 entries = 130 pages.
TEST(IterationModel, EvictionReadsWhatItKeeps) {
  Gpu gpu = h100();
  IterationModel::Options options = llama();
  options.cache[0].keep_ratio = 0.5;
  options.cache[0].always_kept = 64;
  IterationModel model(gpu, options);
  EXPECT_EQ(attention_bytes(model.iteration({.decode_lengths = {4096}, .chunks = {}})), 2080u * 131072u);
}

// 1,024 entries of 100 B in runs of 800 B, 32 elements of each converted and 4,096 multiply-adds to rebuild it: in each of 32
// layers 8 heads
// of 102,400 B, 32,768 elements and 4,194,304 multiply-adds.
TEST(IterationModel, AnEntryCostsWhatIsReadConvertedAndRebuilt) {
  Gpu gpu = h100();
  IterationModel::Options options = llama();
  options.cache[0].entry_bytes = 100;
  options.cache[0].chunk_bytes = 800;
  options.cache[0].dequantized_elements = 32;
  options.cache[0].reconstruction_macs = 4096;
  IterationModel model(gpu, options);
  DecodeAttentionWork work;
  work.tasks = {{.streams = {{102400, 800}},
                 .num_entries = 1024,
                 .dequantized_elements = 32768,
                 .reconstruction_macs = 4194304,
                 .count = 8}};
  work.query_heads_per_task = 4;
  EXPECT_EQ(model.attention({.decode_lengths = {1024}, .chunks = {}}), 32 * gpu.decode_attention(work).duration);
}

// 256 sequences of 192 entries, 8 heads of 98,304 B each, in one call: vllm-fa3 takes 18.4 ns for each of them, 255 x 18.4 ns = 4.692 us
// more in each of 32 layers than were it charged once.
TEST(IterationModel, EverySequenceHasItsShareOfTheKernelsFixedTime) {
  Gpu gpu = h100();
  IterationModel model(gpu, llama());
  DecodeAttentionWork work;
  work.tasks = {{.streams = {{98304, 8192}}, .num_entries = 192, .count = 2048}};
  work.query_heads_per_task = 4;
  work.interleaves_groups = true;
  const Picoseconds charged_once = 32 * gpu.decode_attention(work).duration;
  const Picoseconds attended = model.attention({.decode_lengths = std::vector<std::int64_t>(256, 192), .chunks = {}});
  EXPECT_NEAR(to_microseconds(attended - charged_once), 32 * 4.692, 0.01);
}

// Decoding sequences are chunks of one token under vLLM's FlashAttention; under FlashInfer (fp8 on an L40S), TensorRT-LLM's
// kernels (a B200)
// and where entries are converted first (fp8 on an A100) each of the 32 layers has a call for them.
TEST(IterationModel, TheKernelDecidesWhetherDecodesJoinThePromptsCall) {
  const auto num_calls = [](const char* gpu_name, const IterationModel::Options& options, const BatchShape& batch) {
    Gpu gpu(load_gpu_profile(gpu_name), Fidelity::roofline);
    return class_of(IterationModel(gpu, options).iteration(batch), "attention").num_kernels;
  };
  EXPECT_EQ(num_calls("h100-sxm", llama(), kMixedStep), 0);
  EXPECT_EQ(num_calls("h100-sxm", llama_fp8(), kMixedStep), 0);
  EXPECT_EQ(num_calls("l40s", llama(), kMixedStep), 0);
  EXPECT_EQ(num_calls("l40s", llama_fp8(), kMixedStep), 32);
  EXPECT_EQ(num_calls("b200-sxm", llama(), kMixedStep), 32);
  EXPECT_EQ(num_calls("b200-sxm", llama_fp8(), kMixedStep), 32);
  EXPECT_EQ(num_calls("a100-sxm-80gb", llama(), kMixedStep), 0);
  EXPECT_EQ(num_calls("a100-sxm-80gb", llama_fp8(), kMixedStep), 32);
  EXPECT_EQ(num_calls("h100-sxm", llama(), {.decode_lengths = {1024}, .chunks = {}}), 32);
  EXPECT_EQ(num_calls("b200-sxm", llama(), {.decode_lengths = {}, .chunks = {{16, 0}}}), 0);
}

// The prompts' call reads 4 x 1,023 earlier entries of 8 heads in 32 layers, 512 B each in 16 bits and 256 B in fp8; what was
// just computed is
// in L2. A chunk of a longer prompt reads its 1,008 earlier ones alike.
TEST(IterationModel, ThePromptsCallReadsEntriesAsTheyAreStored) {
  Gpu gpu = h100();
  IterationModel plain(gpu, llama()), fp8(gpu, llama_fp8());
  const auto bytes = [](IterationModel& model, const BatchShape& batch) {
    return class_of(model.iteration(batch), "prefill_attention").hbm_bytes;
  };
  EXPECT_EQ(bytes(plain, kMixedStep), 32U * 4 * 1023 * 8 * 512);
  EXPECT_EQ(bytes(fp8, kMixedStep), 32U * 4 * 1023 * 8 * 256);
  const BatchShape chunk{.decode_lengths = {}, .chunks = {{16, 1008}}};
  EXPECT_EQ(bytes(plain, chunk), 32U * 1008 * 8 * 512);
  EXPECT_EQ(bytes(fp8, chunk), 32U * 1008 * 8 * 256);
  IterationModel::Options metadata = llama();
  metadata.cache[0].entry_bytes = 132;  // int4 with a scale and a zero for each of K and V
  IterationModel int4(gpu, metadata);
  EXPECT_EQ(bytes(int4, chunk), 32U * 1008 * 8 * 132);
}

// Of 1,024 entries half are codes of a third of the bytes: H100 reads all of them, in two calls or one.
TEST(IterationModel, Fp8BesideFp16IsReadOnce) {
  Gpu gpu = h100();
  IterationModel::Options options = llama();
  options.cache[0].entry_bytes = 384;
  options.cache[0].dequantized_elements = 128;
  options.cache[0].fp8_entries = 0.5;
  options.cache[0].fp8_bytes = 1.0 / 3;
  IterationModel mixed(gpu, options);
  EXPECT_EQ(attention_bytes(mixed.iteration({.decode_lengths = {1024}, .chunks = {}})), 32U * 8 * 1024 * 384);
}

// Two kernels a layer choose what decoding sequences read, however many they are and whatever prompts are beside them; prompts
// read all. The
// digests of 64 and 63 pages, 2 x 256 B each of 8 heads, and a group's 4 queries of 256 B for each of 16 heads come from
// device memory once.
TEST(IterationModel, PagesAreChosenInEveryStepThatDecodes) {
  Gpu gpu = h100();
  IterationModel::Options options = llama();
  options.cache[0].digest_entries = 16;
  options.cache[0].digest_vectors = 2;
  options.cache[0].keep_ratio = 0.25;
  IterationModel model(gpu, options);
  const auto num_kernels = [&](const BatchShape& batch) {
    return class_of(model.iteration(batch), "select").num_kernels;
  };
  EXPECT_EQ(num_kernels({.decode_lengths = {1024}, .chunks = {}}), 64);
  EXPECT_EQ(num_kernels({.decode_lengths = {1024, 1008}, .chunks = {{16, 0}}}), 64);
  EXPECT_EQ(num_kernels({.decode_lengths = {}, .chunks = {{16, 1008}}}), 0);
  const Bytes bytes = class_of(model.iteration({.decode_lengths = {1024, 1008}, .chunks = {}}), "select").hbm_bytes;
  EXPECT_GE(bytes, 32U * ((64 + 63) * 8 * 512 + 16 * 4 * 256));
  EXPECT_LE(bytes, 32U * ((64 + 63) * 8 * (512 + 4) + 16 * 4 * 256));
}

// Beyond a window of 1024 a longer context costs nothing more; below it does.
TEST(IterationModel, WindowedLayersAreFlatBeyondTheWindow) {
  Gpu gpu = h100();
  IterationModel::Options options = llama();
  options.cache[0].window = 1024;
  IterationModel model(gpu, options);
  const auto step = [&](std::int64_t length) {
    return model.step({.decode_lengths = std::vector<std::int64_t>(64, length), .chunks = {}});
  };
  EXPECT_LT(step(512), step(1024));
  EXPECT_EQ(step(2048), step(32768));
}

// A chunk of 2048 prompt tokens is bound by arithmetic: 2 x 8.03e9 weights x 2048 = 32.9 TFLOP; at 989 TFLOP/s 33 ms.
TEST(IterationModel, PromptChunksAreBoundByArithmetic) {
  Gpu gpu = h100();
  IterationModel model(gpu, llama());
  const double ms = to_microseconds(model.step({.decode_lengths = {}, .chunks = {{2048, 0}}})) / 1000;
  EXPECT_GT(ms, 28);  // embeddings are not multiplied: 6.98e9 weights in layers -> 28.9 ms at peak
  EXPECT_LT(ms, 60);
  EXPECT_GT(model.step({.decode_lengths = {}, .chunks = {{2048, 30000}}}),
            model.step({.decode_lengths = {}, .chunks = {{2048, 0}}}));
}

TEST(IterationModel, WrongLengthsAreRefused) {
  Gpu gpu = h100();
  IterationModel model(gpu, llama());
  EXPECT_THROW((void)model.step({.decode_lengths = {0}, .chunks = {}}), InputError);
  EXPECT_THROW((void)model.step({.decode_lengths = {}, .chunks = {{0, 5}}}), InputError);
  IterationModel::Options options = llama();
  options.cache[0].num_layers = 31;
  EXPECT_THROW(IterationModel(gpu, options), InputError);
}

}  // namespace
}  // namespace kvtide::gpu
