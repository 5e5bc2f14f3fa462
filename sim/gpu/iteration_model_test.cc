#include "gpu/iteration_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/testing/llama_on_h100.h"

namespace kvtide::gpu {
namespace {

using testing_support::h100;
using testing_support::llama;

Bytes attention_bytes(const Iteration& iteration) {
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == "attention") return sums.hbm_bytes;
  }
  return 0;
}

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

// 1,024 entries of 100 B in runs of 800 B, 32 elements of each converted and 4,096 multiply-adds to rebuild it: in each of 32 layers 8 heads
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
