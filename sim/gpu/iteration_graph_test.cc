#include "gpu/iteration_graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/testing/llama_on_h100.h"

namespace kvtide::gpu {
namespace {

using testing_support::h100;
using testing_support::kLlama;

// Qwen3-8B: 36 x 2 x 8 x 128 x 2 B = 147,456 B a token.
constexpr DecoderShape kQwen{.num_layers = 36,
                             .hidden_size = 4096,
                             .num_query_heads = 32,
                             .num_kv_heads = 8,
                             .head_dim = 128,
                             .intermediate_size = 12288,
                             .vocab_size = 151936};

IterationWork step(const DecoderShape& shape, std::int64_t batch, std::int64_t num_entries, std::int64_t bits) {
  const Bytes entry_bytes = static_cast<Bytes>(shape.head_dim * bits / 8);
  const PageStream stream{static_cast<Bytes>(num_entries) * entry_bytes, 16 * entry_bytes};
  DecodeAttentionWork attention;
  attention.tasks.push_back(
      {.streams = {stream, stream}, .num_entries = num_entries, .count = batch * shape.num_kv_heads});
  attention.query_heads_per_task = shape.num_query_heads / shape.num_kv_heads;
  attention.head_dim = shape.head_dim;
  attention.math_bits = bits;
  IterationWork work;
  work.batch = batch;
  work.attention = {attention};
  return work;
}

Bytes bytes_of(const Iteration& iteration, const std::string& kernel_class) {
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == kernel_class) return sums.hbm_bytes;
  }
  return 0;
}

// Field case (hahnyuan/LLM-Viewer#12): 32 query heads on 8 KV heads, 8,192 tokens x 131,072 B = 1 GiB a step, not 4.
TEST(IterationGraph, GroupedQueriesReadKvHeadsOnce) {
  Gpu gpu = h100();
  EXPECT_EQ(bytes_of(time_iteration(gpu, kLlama, step(kLlama, 1, 8192, 16)), "attention"), kGiB);
}

// Field case (vllm-project/vllm#42058): 16.4 GB of weights, 8 sequences: fp8 cannot gain more than (W + K) / (W + K /
// 2).
TEST(IterationGraph, Fp8GainsLessThanTheByteBound) {
  Gpu gpu = h100();
  const std::vector<std::pair<std::int64_t, double>> bounds{
      {1024, 1.036}, {4096, 1.128}, {8192, 1.228}, {16384, 1.371}};
  for (const auto& [tokens, bound] : bounds) {
    const double k = 8.0 * static_cast<double>(tokens) * 147456;
    ASSERT_NEAR((16.4e9 + k) / (16.4e9 + k / 2), bound, 0.001) << "the bound itself";
    const auto full = time_iteration(gpu, kQwen, step(kQwen, 8, tokens, 16)).duration;
    const auto fp8 = time_iteration(gpu, kQwen, step(kQwen, 8, tokens, 8)).duration;
    EXPECT_LE(to_seconds(full) / to_seconds(fp8), bound) << tokens << " tokens";
  }
}

// Weights read once a step: 32 x (4096 x (6144 + 4096 + 28672) + 14336 x 4096) + 128256 x 4096 = 7.504e9
// elements, 15.01 GB; at 3.082 TB/s 4.87 ms. 193 launches of 1.2 to 12 us add less than 1.2 ms.
TEST(IterationGraph, SmallBatchTakesTheTimeOfItsWeights) {
  Gpu gpu = h100();
  const double milliseconds = to_microseconds(time_iteration(gpu, kLlama, step(kLlama, 1, 128, 16)).duration) / 1000;
  EXPECT_GT(milliseconds, 4.87);
  EXPECT_LT(milliseconds, 4.87 + 1.2);
}

// A layer's projections in and out: 4096 x 6144 and 4096 x 4096; gate and up 4096 x 28,672; output layer 128,256 x 4096. Beside them a
// token's activations, below 100 kB a call, are read.
TEST(IterationGraph, EachPartReadsItsWeightsInItsFormat) {
  Gpu gpu = h100();
  const auto read = [&gpu](const DecoderShape& shape, const char* kernel_class) {
    return static_cast<double>(bytes_of(time_iteration(gpu, shape, step(kLlama, 1, 128, 16)), kernel_class));
  };
  DecoderShape shape = kLlama;
  shape.mlp_format = OperandFormat::fp8;
  EXPECT_NEAR(read(shape, "gate_up_gemm") / 32, 4096.0 * 28672, 1e5);
  EXPECT_NEAR(read(shape, "qkv_gemm") / 32, 2 * 4096.0 * 6144, 1e5);
  shape.attention_format = OperandFormat::int4_wo;
  EXPECT_NEAR(read(shape, "qkv_gemm") / 32, 0.5 * 4096.0 * 6144, 1e5);
  EXPECT_NEAR(read(shape, "o_gemm") / 32, 0.5 * 4096.0 * 4096, 1e5);
  EXPECT_NEAR(read(shape, "lm_head"), 2 * 128256.0 * 4096, 1e6);
  // 4.25 bits: an 8-bit scale for 32 weights.
  shape.experts = {.num_experts = 8, .num_active = 2, .intermediate_size = 14336};
  shape.mlp_format = OperandFormat::mxfp4_wo;
  EXPECT_NEAR(read(shape, "expert_down") / 32, 2 * 4.25 / 8 * 4096 * 14336, 1e5);
  EXPECT_NEAR(read(shape, "router") / 32, 2 * 8.0 * 4096, 1e5);
}

TEST(IterationGraph, OneStreamSumsItsKernels) {
  Gpu gpu = h100();
  const Iteration iteration = time_iteration(gpu, kLlama, step(kLlama, 4, 1000, 16));
  Picoseconds sum{0};
  std::int64_t num_kernels = 0;
  for (const KernelClassTime& sums : iteration.by_class) {
    sum += sums.duration;
    num_kernels += sums.num_kernels;
  }
  EXPECT_EQ(sum, iteration.duration);
  EXPECT_EQ(num_kernels, 32 * 6 + 1);
  for (const ScheduledKernel& kernel : iteration.schedule.kernels) EXPECT_EQ(kernel.slack.count(), 0);
}

TEST(IterationGraph, EqualLayersMayBeListedOnceOrEach) {
  Gpu gpu = h100();
  const IterationWork once = step(kLlama, 4, 1000, 16);
  IterationWork each = once;
  each.attention.assign(32, once.attention[0]);
  EXPECT_EQ(time_iteration(gpu, kLlama, once).duration, time_iteration(gpu, kLlama, each).duration);
}

TEST(IterationGraph, CompressionAddsItsKernels) {
  Gpu gpu = h100();
  IterationWork work = step(kLlama, 4, 1000, 16);
  const Picoseconds without = time_iteration(gpu, kLlama, work).duration;
  const CompressBlocksWork block{
      .num_blocks = 32, .read_bytes = 32 * 65536, .write_bytes = 32 * 16384, .chunk_bytes = 4096};
  work.compression = {block};
  const Iteration with = time_iteration(gpu, kLlama, work);
  EXPECT_EQ(with.compress_duration, 32 * gpu.compress_blocks(block).duration);
  EXPECT_EQ(with.duration - without, with.compress_duration);
}

TEST(IterationGraph, ShapesThatDoNotFitAreRefused) {
  Gpu gpu = h100();
  IterationWork work = step(kLlama, 1, 128, 16);
  work.attention.resize(2);
  EXPECT_THROW((void)time_iteration(gpu, kLlama, work), InputError);
  work.attention.clear();
  EXPECT_THROW((void)time_iteration(gpu, kLlama, work), InputError);
  work = step(kLlama, 1, 128, 16);
  work.batch = 0;
  EXPECT_THROW((void)time_iteration(gpu, kLlama, work), InputError);
  DecoderShape shape = kLlama;
  shape.num_layers = 0;
  EXPECT_THROW((void)time_iteration(gpu, shape, step(kLlama, 1, 128, 16)), InputError);
}

std::int64_t count_of(const Iteration& iteration, const std::string& kernel_class) {
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == kernel_class) return sums.num_kernels;
  }
  return 0;
}

// 4 sequences x 4096 channels x 2 B = 32,768 B twice a layer; two ranks send 2 x 1/2 of it each, read here and written
// there: 65,536 B an all-reduce, 64 of them.
TEST(IterationGraph, TwoRanksAddTwoAllReducesALayer) {
  Gpu gpu = h100();
  DecoderShape shape = kLlama;
  shape.tensor_parallel = 2;
  const Iteration iteration = time_iteration(gpu, shape, step(kLlama, 4, 1000, 16));
  EXPECT_EQ(count_of(iteration, "all_reduce"), 64);
  EXPECT_EQ(bytes_of(iteration, "all_reduce"), 64u * 65536u);
  // Half of the KV heads, half of every matrix.
  const Iteration whole = time_iteration(gpu, kLlama, step(kLlama, 4, 1000, 16));
  EXPECT_EQ(bytes_of(iteration, "attention") * 2, bytes_of(whole, "attention"));
  EXPECT_EQ(count_of(whole, "all_reduce"), 0);
}

// 64 tasks (8 sequences x 8 KV heads) of 4 query heads. 2 ranks: 32 tasks of 4; 8 ranks: 8 of 4; 16 ranks: every KV head
// twice, 8 tasks of 2 query heads. A latent vector: all tasks, its 128 query heads divided.
TEST(IterationGraph, RanksDivideKvHeadsAndThenQueryHeads) {
  DecodeAttentionWork work;
  work.query_heads_per_task = 4;
  work.tasks = {{.streams = {}, .count = 24}, {.streams = {}, .count = 40}};
  const auto tasks = [](const DecodeAttentionWork& own) {
    std::int64_t sum = 0;
    for (const AttentionTask& task : own.tasks) sum += task.count;
    return sum;
  };
  EXPECT_EQ(tasks(share_of_rank(work, 8, false, 2)), 32);
  EXPECT_EQ(share_of_rank(work, 8, false, 2).query_heads_per_task, 4);
  EXPECT_EQ(tasks(share_of_rank(work, 8, false, 8)), 8);
  EXPECT_EQ(share_of_rank(work, 8, false, 8).query_heads_per_task, 4);
  EXPECT_EQ(tasks(share_of_rank(work, 8, false, 16)), 8);
  EXPECT_EQ(share_of_rank(work, 8, false, 16).query_heads_per_task, 2);
  work.query_heads_per_task = 128;
  EXPECT_EQ(tasks(share_of_rank(work, 1, true, 8)), 64);
  EXPECT_EQ(share_of_rank(work, 1, true, 8).query_heads_per_task, 16);
}

// 100 flops, 80 of them for query heads, and 10 products. 2 ranks have half of everything; 8 ranks over 4 KV heads repeat each: a
// quarter of its bytes and of 20 flops, an eighth of the 80. Nothing but the queries of a latent vector is divided.
TEST(IterationGraph, RanksDivideWhatIsDoneForQueryHeadsEvenWhereTheyRepeatKeys) {
  const StreamWork work{
      .num_blocks = 16, .read_bytes = 1000, .write_bytes = 40, .flops = 100, .query_flops = 80, .tensor_flops = 10};
  const auto expect = [&](std::int64_t kv_heads, bool is_latent, std::int64_t ranks, const StreamWork& own) {
    EXPECT_EQ(share_of_rank(work, kv_heads, is_latent, ranks), own) << kv_heads << " " << ranks;
  };
  expect(4, false, 1, work);
  expect(4, false, 2,
         {.num_blocks = 8, .read_bytes = 500, .write_bytes = 20, .flops = 50, .query_flops = 40, .tensor_flops = 5});
  expect(4, false, 8,
         {.num_blocks = 4, .read_bytes = 250, .write_bytes = 10, .flops = 15, .query_flops = 10, .tensor_flops = 1.25});
  expect(
      1, true, 8,
      {.num_blocks = 16, .read_bytes = 1000, .write_bytes = 40, .flops = 30, .query_flops = 10, .tensor_flops = 1.25});
}

TEST(HeadsOfRank, AreDividedInOrderAndRepeated) {
  const auto heads = [](std::int64_t num_heads, std::int64_t rank, std::int64_t num_ranks) {
    const HeadRange range = heads_of_rank(num_heads, rank, num_ranks);
    return std::pair{range.first, range.last};
  };
  EXPECT_EQ(heads(8, 0, 1), std::pair(0L, 8L));
  EXPECT_EQ(heads(8, 0, 2), std::pair(0L, 4L));
  EXPECT_EQ(heads(8, 1, 2), std::pair(4L, 8L));
  EXPECT_EQ(heads(8, 7, 8), std::pair(7L, 8L));
  EXPECT_EQ(heads(8, 3, 16), std::pair(1L, 2L));
  EXPECT_EQ(heads(8, 15, 16), std::pair(7L, 8L));
}

// Two sequences. Heads 0..3 of 8 read 1,000 B each, 4..7 a tenth: rank 0 of 2 has the 8 large tasks, 4 ranks have 4 of one size, 16 ranks 2
// of half the query heads. Where large and small ones alternate every rank has both.
TEST(IterationGraph, TheRankWithTheLargestHeadsIsWaitedFor) {
  DecodeAttentionWork work;
  work.query_heads_per_task = 4;
  const auto tasks = [](Bytes bytes, std::int64_t count, std::vector<std::int64_t> heads) {
    return AttentionTask{.streams = {{bytes, 16}}, .count = count, .kv_heads = std::move(heads)};
  };
  work.tasks = {tasks(100, 8, {4, 5, 6, 7}), tasks(1000, 8, {0, 1, 2, 3})};
  EXPECT_EQ(share_of_rank(work, 8, false, 1), work);
  EXPECT_EQ(share_of_rank(work, 8, false, 2).tasks, std::vector{tasks(1000, 8, {})});
  EXPECT_EQ(part_of_rank(work, 8, false, 2, 1).tasks, std::vector{tasks(100, 8, {})});
  EXPECT_EQ(share_of_rank(work, 8, false, 4).tasks, std::vector{tasks(1000, 4, {})});
  EXPECT_EQ(share_of_rank(work, 8, false, 16).tasks, std::vector{tasks(1000, 2, {})});
  EXPECT_EQ(share_of_rank(work, 8, false, 16).query_heads_per_task, 2);
  EXPECT_EQ(part_of_rank(work, 8, false, 16, 15).tasks, std::vector{tasks(100, 2, {})});
  work.tasks = {tasks(100, 8, {1, 3, 5, 7}), tasks(1000, 8, {0, 2, 4, 6})};
  EXPECT_EQ(share_of_rank(work, 8, false, 2).tasks, (std::vector{tasks(100, 4, {}), tasks(1000, 4, {})}));
  // The last rank has the largest.
  work.tasks = {tasks(100, 14, {0, 1, 2, 3, 4, 5, 6}), tasks(1000, 2, {7})};
  EXPECT_EQ(share_of_rank(work, 8, false, 8).tasks, std::vector{tasks(1000, 2, {})});
  EXPECT_EQ(share_of_rank(work, 8, false, 2).tasks, (std::vector{tasks(100, 6, {}), tasks(1000, 2, {})}));
}

// Field case C6 at the machine: ranks that neither divide the KV heads nor are a multiple of them are refused.
TEST(IterationGraph, RanksThatDoNotFitTheHeadsAreRefused) {
  DecoderShape shape = kLlama;
  shape.num_kv_heads = 4;
  for (const std::int64_t ranks : {1, 2, 4, 8, 16}) {
    shape.tensor_parallel = ranks;
    EXPECT_NO_THROW(check(shape)) << ranks;
  }
  shape.num_query_heads = 48;
  for (const std::int64_t ranks : {3, 6}) {
    shape.tensor_parallel = ranks;
    EXPECT_THROW(check(shape), InputError) << ranks;
  }
}

// 8 experts, 2 active: one token visits 2; four tokens 8 x (1 - 0.75^4) = 8 x 0.68359375 = 5.46875; 64 tokens nearly all.
TEST(IterationGraph, ManyTokensVisitAllExperts) {
  EXPECT_DOUBLE_EQ(expected_experts(8, 2, 1), 2);
  EXPECT_DOUBLE_EQ(expected_experts(8, 2, 4), 5.46875);
  EXPECT_NEAR(expected_experts(8, 2, 64), 8, 1e-6);
}

// Mixtral-8x7B's layers: an expert has 3 x 4096 x 14336 = 176,160,768 weights of 2 B. One token reads 2 experts of gate
// and up: 2 x 2 x 4096 x 14336 x 2 B = 469,762,048 B a layer beside activations of some 100 kB.
TEST(IterationGraph, OneTokenReadsItsActiveExpertsOnly) {
  Gpu gpu = h100();
  DecoderShape shape = kLlama;
  shape.experts = {.num_experts = 8, .num_active = 2, .intermediate_size = 14336};
  const Iteration iteration = time_iteration(gpu, shape, step(kLlama, 1, 128, 16));
  EXPECT_NEAR(static_cast<double>(bytes_of(iteration, "expert_gate_up")) / 32, 469762048, 2e5);
  EXPECT_EQ(count_of(iteration, "router"), 32);
  EXPECT_EQ(count_of(iteration, "gate_up_gemm"), 0);
  shape.experts.first_layer = 1;  // the first layer has a dense MLP
  EXPECT_EQ(count_of(time_iteration(gpu, shape, step(kLlama, 1, 128, 16)), "gate_up_gemm"), 1);
}

// Mixtral's layers on four ranks of two whole experts. Four tokens: one a rank, routed twice, 4096 x 2 B: a buffer of
// 16,384 B, of which 3/4 leave: 12,288 B read here and written there, to the experts and back. Then 4 x 4096 x 2 B =
// 32,768 B are gathered: 2 x 24,576 B. The all-reduce after attention stays, the one after the experts goes.
TEST(IterationGraph, WholeExpertsExchangeRoutedRows) {
  Gpu gpu = h100();
  DecoderShape shape = kLlama;
  shape.experts = {.num_experts = 8, .num_active = 2, .intermediate_size = 14336};
  shape.tensor_parallel = shape.expert_parallel = 4;
  const Iteration iteration = time_iteration(gpu, shape, step(kLlama, 4, 128, 16));
  for (const char* exchange : {"dispatch", "combine"}) {
    EXPECT_EQ(count_of(iteration, exchange), 32) << exchange;
    EXPECT_EQ(bytes_of(iteration, exchange), 32u * 24576u) << exchange;
  }
  EXPECT_EQ(bytes_of(iteration, "all_gather"), 32u * 49152u);
  EXPECT_EQ(count_of(iteration, "all_reduce"), 32);
  Picoseconds collectives{0};
  for (const KernelClassTime& sums : iteration.by_class) {
    for (const char* name :
         {"embedding_all_reduce", "all_reduce", "dispatch", "combine", "all_gather", "gather_logits"}) {
      if (sums.kernel_class == name) collectives += sums.duration;
    }
  }
  EXPECT_EQ(iteration.collective_duration, collectives);
  shape.experts.first_layer = 2;  // dense layers sum their parts as ever
  const Iteration mixed = time_iteration(gpu, shape, step(kLlama, 4, 128, 16));
  EXPECT_EQ(count_of(mixed, "dispatch"), 30);
  EXPECT_EQ(count_of(mixed, "all_reduce"), 34);
}

// Gate and up of an expert: 2 x 4096 x 14336 x 2 B = 234,881,024 B. One token visits two experts, on two of four ranks:
// one whole expert where it is there, against two quarters on every rank: twice the bytes. 64 tokens visit all eight: two
// whole ones, 469,762,048 B, as many as eight quarters. Shared experts are whole instead of quarters.
TEST(IterationGraph, ARankReadsItsWholeExperts) {
  Gpu gpu = h100();
  DecoderShape cut = kLlama;
  cut.experts = {.num_experts = 8, .num_active = 2, .intermediate_size = 14336, .shared_intermediate_size = 14336};
  cut.tensor_parallel = 4;
  DecoderShape whole = cut;
  whole.expert_parallel = 4;
  const auto read = [&](const DecoderShape& shape, std::int64_t batch, const char* kernel_class) {
    return static_cast<double>(bytes_of(time_iteration(gpu, shape, step(kLlama, batch, 128, 16)), kernel_class)) / 32;
  };
  EXPECT_NEAR(read(whole, 1, "expert_gate_up"), 234881024, 2e5);
  EXPECT_NEAR(read(cut, 1, "expert_gate_up"), 117440512, 2e5);
  EXPECT_NEAR(read(whole, 64, "expert_gate_up"), 469762048, 4e6);
  EXPECT_NEAR(read(cut, 64, "expert_gate_up"), 469762048, 4e6);
  EXPECT_NEAR(read(whole, 1, "shared_down"), 117440512, 2e5);
  EXPECT_NEAR(read(cut, 1, "shared_down"), 29360128, 2e5);
}

TEST(IterationGraph, RanksThatDoNotFitTheExpertsAreRefused) {
  DecoderShape shape = kLlama;
  shape.tensor_parallel = 4;
  const auto accepts = [&](std::int64_t expert_parallel, std::int64_t num_experts) {
    shape.expert_parallel = expert_parallel;
    shape.experts = {.num_experts = num_experts, .num_active = num_experts > 0 ? 2 : 0, .intermediate_size = 64};
    try {
      check(shape);
    } catch (const InputError&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(accepts(1, 6));
  EXPECT_TRUE(accepts(4, 8));
  EXPECT_FALSE(accepts(4, 6));  // four ranks cannot hold 1.5 experts each
  EXPECT_FALSE(accepts(2, 8));  // neither 1 nor the tensor-parallel ranks
  EXPECT_FALSE(accepts(8, 8));
  EXPECT_FALSE(accepts(0, 8));
  EXPECT_FALSE(accepts(4, 0));  // dense
}

// Beside the attention's successors, compression no longer lengthens the step unless it is the longer branch.
TEST(IterationGraph, CompressionOnASideStreamIsHidden) {
  Gpu gpu = h100();
  IterationWork work = step(kLlama, 4, 1000, 16);
  const Picoseconds without = time_iteration(gpu, kLlama, work).duration;
  work.compression = {{.num_blocks = 32, .read_bytes = 32 * 65536, .write_bytes = 32 * 16384, .chunk_bytes = 4096}};
  const Picoseconds serial = time_iteration(gpu, kLlama, work).duration;
  work.has_side_streams = true;
  const Iteration beside = time_iteration(gpu, kLlama, work);
  EXPECT_GT(serial, without);
  EXPECT_EQ(beside.duration, without);
  EXPECT_EQ(count_of(beside, "compress"), 32);
}

// Four stages of eight layers: three hand-overs of 4 x 4096 x 2 B; the rest is the same work.
TEST(IterationGraph, PipelineStagesHandActivationsOn) {
  Gpu gpu = h100();
  DecoderShape shape = kLlama;
  const Picoseconds one = time_iteration(gpu, shape, step(kLlama, 4, 1000, 16)).duration;
  shape.pipeline_parallel = 4;
  const Iteration staged = time_iteration(gpu, shape, step(kLlama, 4, 1000, 16));
  EXPECT_EQ(count_of(staged, "send"), 3);
  EXPECT_EQ(bytes_of(staged, "send"), 3u * 2u * 32768u);
  EXPECT_GT(staged.duration, one);
  EXPECT_EQ(staged.schedule.kernels.back().stage, 3);
}

}  // namespace
}  // namespace kvtide::gpu
