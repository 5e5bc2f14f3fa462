#include "gpu/decode_attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"
#include "gpu/gpu.h"
#include "gpu/mla_decode.h"

namespace kvtide::gpu {
namespace {

/// Round numbers: 4 SMs that stream 1,000 B a us each (2,000 from L2), 1 us a task, 10 us a launch; memory and tensor
/// cores too fast to matter. Tiles of 16 entries.
GpuProfile toy_profile() {
  GpuProfile profile;
  profile.name = "toy";
  profile.num_sms = 4;
  profile.memory_latency = 1e-6;
  profile.l2_latency = 0.5e-6;
  profile.l2_bytes = Bytes{1} << 20;
  profile.l2_usable_share = 1;
  profile.l2_bandwidth = 1e15;
  profile.tensor_flops_16bit = 4e15;
  profile.tensor_flops_8bit = 8e15;
  profile.cuda_core_flops = 8e12;  // 1e12 lane operations/s per SM
  profile.bytes_in_flight = 1000;
  profile.graph_launch_latency = 10e-6;
  AttentionKernel kernel;
  kernel.name = "toy";
  kernel.framework = "toy";
  kernel.task_time = 1e-6;
  kernel.combine_time = 2e-6;
  kernel.bytes_in_flight = 1000;
  kernel.tensor_efficiency = 1;
  kernel.transpose_rate = 1e18;
  kernel.tiles = {{128, 16}};
  profile.attention_kernels = {kernel};
  return profile;
}

/// `count` tasks that read K and V of `bytes` each.
DecodeAttentionWork tasks(std::int64_t count, std::int64_t num_entries, Bytes bytes, Bytes chunk_bytes = 4096) {
  DecodeAttentionWork work;
  work.tasks.push_back(
      {.streams = {{bytes, chunk_bytes}, {bytes, chunk_bytes}}, .num_entries = num_entries, .count = count});
  work.head_dim = 2;
  return work;
}

double toy_us(const DecodeAttentionWork& work, L2State l2 = L2State::cold) {
  ConstantRateMemory memory(1e15, 1);
  return to_microseconds(time_decode_attention(toy_profile(), memory, work, l2).duration);
}

double h100_us(const DecodeAttentionWork& work, L2State l2 = L2State::cold) {
  static const GpuProfile profile = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory(profile.bandwidth, 0.92);
  return to_microseconds(time_decode_attention(profile, memory, work, l2).duration);
}

/// fp16 or fp8 KV, head_dim 128, groups of 4 query heads, pages of 16.
DecodeAttentionWork llama_layer(std::int64_t num_tasks, std::int64_t num_entries, std::int64_t bits) {
  const Bytes entry_bytes = 128 * static_cast<Bytes>(bits) / 8;
  DecodeAttentionWork work =
      tasks(num_tasks, num_entries, static_cast<Bytes>(num_entries) * entry_bytes, 16 * entry_bytes);
  work.head_dim = 128;
  work.query_heads_per_task = 4;
  work.math_bits = bits;
  return work;
}

// 10,000 B / 1,000 B a us = 10 us, + 1 us a task + 10 us launch.
TEST(DecodeAttention, TasksRunInWaves) {
  EXPECT_NEAR(toy_us(tasks(4, 16, 5000)), 21, 0.01);
  EXPECT_NEAR(toy_us(tasks(5, 16, 5000)), 32, 0.01);
  EXPECT_NEAR(toy_us(tasks(8, 16, 5000)), 32, 0.01);
}

// One task of 8 tiles over 4 SMs: 2 tiles each, 40,000 B / 4 = 10 us; + 1 task + 10 launch + 2 combine.
TEST(DecodeAttention, SplitTaskIsCombined) {
  EXPECT_NEAR(toy_us(tasks(1, 128, 20000)), 23, 0.01);
}

TEST(DecodeAttention, WarmL2AnswersSooner) {
  EXPECT_NEAR(toy_us(tasks(4, 16, 5000), L2State::warm), 16, 0.01);  // 2,000 B a us
  ConstantRateMemory memory(1e15, 1);
  EXPECT_EQ(time_decode_attention(toy_profile(), memory, tasks(4, 16, 5000), L2State::warm).hbm_bytes, 0u);
  EXPECT_EQ(time_decode_attention(toy_profile(), memory, tasks(4, 16, 5000), L2State::cold).hbm_bytes, 40000u);
}

// 7.5e6 elements x 2 operations / 1e12 a second = 15 us, more than the 10 us of loads that run beside them.
TEST(DecodeAttention, DequantizationHidesBehindLoadsUntilItIsLonger) {
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.tasks[0].dequantized_elements = 2.5e6;  // 5 us
  EXPECT_NEAR(toy_us(work), 21, 0.01);
  work.tasks[0].dequantized_elements = 7.5e6;
  EXPECT_NEAR(toy_us(work), 26, 0.01);
  // Rebuilding rows follows in the same warps: 2 x 5e9 flop / 1e15 = 10 us more.
  work.tasks[0].reconstruction_macs = 5e9;
  EXPECT_NEAR(toy_us(work), 36, 0.01);
}

// 3 query heads that do not share KV fetch it three times: 3 x 4 x 10,000 B cold, nothing warm.
TEST(DecodeAttention, EveryBlockOfATaskFetchesWhatMissesL2) {
  GpuProfile profile = toy_profile();
  profile.attention_kernels.front().shares_kv = false;
  ConstantRateMemory memory(1e15, 1);
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.query_heads_per_task = 3;
  EXPECT_EQ(time_decode_attention(profile, memory, work, L2State::cold).hbm_bytes, 120'000u);
  EXPECT_EQ(time_decode_attention(profile, memory, work, L2State::warm).hbm_bytes, 0u);
}

// 96 query heads that share KV are two tiles of 64 rows, which start together on the same entries: 4 x 10,000 B once.
TEST(DecodeAttention, TilesOfAGroupReadTheEntriesOnce) {
  GpuProfile profile = toy_profile();
  profile.attention_kernels.front().tile_query_rows = 64;
  ConstantRateMemory memory(1e15, 1);
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.query_heads_per_task = 96;
  EXPECT_EQ(time_decode_attention(profile, memory, work, L2State::cold).hbm_bytes, 40'000u);
}

/// The toy with its kernel changed.
double changed_toy_us(const DecodeAttentionWork& work, void (*change)(AttentionKernel&)) {
  GpuProfile profile = toy_profile();
  change(profile.attention_kernels.front());
  ConstantRateMemory memory(1e15, 1);
  return to_microseconds(time_decode_attention(profile, memory, work, L2State::cold).duration);
}

// 4 tasks of 2 query heads are 4 blocks where a block serves the group, 8 blocks (two waves) where it does not.
TEST(DecodeAttention, BlocksThatDoNotShareKvRunOncePerQueryHead) {
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.query_heads_per_task = 2;
  EXPECT_NEAR(toy_us(work), 21, 0.01);
  EXPECT_NEAR(changed_toy_us(work, [](AttentionKernel& kernel) { kernel.shares_kv = false; }), 32, 0.01);
  // 65 query heads do not fit one tile of 64 rows: 2 blocks a task.
  work = tasks(4, 16, 5000);
  work.query_heads_per_task = 65;
  EXPECT_NEAR(toy_us(work), 32, 0.01);
}

// 8 tiles on one SM: 40 us of loads, + 1 task + 10 launch; split it takes 23 (SplitTaskIsCombined).
TEST(DecodeAttention, KernelThatDoesNotSplitLeavesSmsIdle) {
  EXPECT_NEAR(changed_toy_us(tasks(1, 128, 20000), [](AttentionKernel& kernel) { kernel.splits = SplitRule::none; }),
              51, 0.01);
}

// 4 tasks of one tile cut into 3 parts: 8 parts find nothing, two rounds of 0.5 us over 4 SMs; nothing is joined.
TEST(DecodeAttention, PartsWithoutEntriesCostTheirLaunch) {
  EXPECT_NEAR(changed_toy_us(tasks(4, 16, 5000),
                             [](AttentionKernel& kernel) {
                               kernel.splits = SplitRule::fixed;
                               kernel.max_splits = 3;
                               kernel.empty_block_time = 0.5e-6;
                             }),
              22, 0.01);
}

// SplitTaskIsCombined with 4 parts x 1 row x 2 channels x 0.25 us = 2 us more; 3 sequences at 1 us each are 3 us more.
TEST(DecodeAttention, JoiningCostsByPartAndSchedulingBySequence) {
  EXPECT_NEAR(
      changed_toy_us(tasks(1, 128, 20000), [](AttentionKernel& kernel) { kernel.combine_output_time = 0.25e-6; }), 25,
      0.01);
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.num_sequences = 3;
  EXPECT_NEAR(changed_toy_us(work, [](AttentionKernel& kernel) { kernel.sequence_time = 1e-6; }), 24, 0.01);
}

// Without a graph the host needs 30 us a call: a call of 21 us takes 30, one of 32 us is not delayed.
TEST(DecodeAttention, HostThatSubmitsSlowlyHidesShortCalls) {
  GpuProfile profile = toy_profile();
  profile.host_launch_time = 30e-6;
  ConstantRateMemory memory(1e15, 1);
  const auto time = [&](std::int64_t count) {
    return time_decode_attention(profile, memory, tasks(count, 16, 5000), L2State::cold);
  };
  EXPECT_NEAR(to_microseconds(time(4).duration), 30, 0.01);
  EXPECT_EQ(time(4).limited_by, "launch");
  EXPECT_NEAR(to_microseconds(time(5).duration), 32, 0.01);
}

// Two blocks an SM share its 1,000 B in flight: each of 8 tasks takes 20 us of loads, all at once.
TEST(DecodeAttention, ResidentBlocksShareTheBytesInFlight) {
  EXPECT_NEAR(changed_toy_us(tasks(8, 16, 5000), [](AttentionKernel& kernel) { kernel.blocks_per_sm = 2; }), 31, 0.01);
}

// 2 query rows x 2 channels x 0.25 us = 1 us more a block.
TEST(DecodeAttention, OutputCostsByQueryRowAndChannel) {
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.query_heads_per_task = 2;
  EXPECT_NEAR(changed_toy_us(work, [](AttentionKernel& kernel) { kernel.output_time = 0.25e-6; }), 22, 0.01);
}

TEST(DecodeAttention, QueriesOfAGroupAreBroughtTogetherOnlyWhereTheyAreApart) {
  const auto regroups = [](AttentionKernel& kernel) { kernel.regroup_time = 6e-6; };
  DecodeAttentionWork work = tasks(4, 16, 5000);
  work.query_heads_per_task = 2;
  EXPECT_NEAR(changed_toy_us(work, regroups), 21, 0.01);
  work.interleaves_groups = true;
  EXPECT_NEAR(changed_toy_us(work, regroups), 27, 0.01);
  work.query_heads_per_task = 1;
  EXPECT_NEAR(changed_toy_us(work, regroups), 21, 0.01);
}

// 64 entries are 4 tiles for 4 SMs: 2.5 us each. A window over 64 of more entries touches a fifth tile: blocks of 2 tiles,
// 3 of them, of which the fullest reads half: 5 us.
TEST(DecodeAttention, WindowInsideATileTouchesOneTileMore) {
  DecodeAttentionWork work = tasks(1, 64, 5000);
  EXPECT_NEAR(toy_us(work), 15.5, 0.01);  // + 1 task + 10 launch + 2 combine
  work.tasks[0].hidden_entries = 1;
  EXPECT_NEAR(toy_us(work), 18, 0.01);
}

// 10 us of waves after the first block's overhead and 10 us of memory end after 2^(1/6) of that: 11.22; + 1 + 10 launch.
TEST(DecodeAttention, BlocksAndMemoryNearSaturationSlowEachOther) {
  const GpuProfile profile = toy_profile();
  ConstantRateMemory memory(40000 / 10e-6, 1);
  EXPECT_NEAR(to_microseconds(time_decode_attention(profile, memory, tasks(4, 16, 5000), L2State::cold).duration),
              11 + 10 * 1.12246, 0.01);
}

// Memory of 100 us cannot begin before the first block's 1 us is over.
TEST(DecodeAttention, NothingStreamsDuringTheFirstBlocksOverhead) {
  const GpuProfile profile = toy_profile();
  ConstantRateMemory memory(40000 / 100e-6, 1);
  EXPECT_NEAR(to_microseconds(time_decode_attention(profile, memory, tasks(4, 16, 5000), L2State::cold).duration),
              10 + 1 + 100, 0.01);
}

TEST(DecodeAttention, MixedTasksShareTheMachine) {
  // 3 tasks of 10 us and 2 of 4 us (+ 1 us each) on 4 SMs: 11, 11, 11 and 5 + 5 = 10 on the fourth.
  DecodeAttentionWork work = tasks(3, 16, 5000);
  work.tasks.push_back({.streams = {{4000, 4096}}, .num_entries = 16, .count = 2});
  EXPECT_NEAR(toy_us(work), 21, 0.01);
}

TEST(DecodeAttention, NothingToAttendTakesNoTime) {
  EXPECT_EQ(toy_us(tasks(0, 16, 5000)), 0);
}

TEST(DecodeAttention, ImpossibleWorkIsRefused) {
  ConstantRateMemory memory(1e15, 1);
  GpuProfile profile = toy_profile();
  const auto time = [&](const DecodeAttentionWork& work) {
    (void)time_decode_attention(profile, memory, work, L2State::cold);
  };
  EXPECT_THROW(time(tasks(-1, 16, 5000)), InputError);
  EXPECT_THROW(time(tasks(INT64_MAX, 16, 5000)), InputError);
  EXPECT_THROW(time(tasks(1, -1, 5000)), InputError);
  EXPECT_THROW(time(tasks(1, INT64_MAX, 5000)), InputError);
  EXPECT_THROW(time(tasks(2, 1, UINT64_MAX)), InputError);
  DecodeAttentionWork work = tasks(1, 16, 5000);
  work.tasks[0].dequantized_elements = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(time(work), InputError);
  work = tasks(1, 16, 5000);
  work.kernel = "toi";
  EXPECT_THROW(time(work), InputError);
  work = tasks(1, 16, 5000);
  work.math_bits = 8;
  EXPECT_NO_THROW(time(work));
  profile.tensor_flops_8bit = 0;
  EXPECT_THROW(time(work), InputError);
}

// Measured floor on H100 under vLLM: 10.2 us bf16, 10.9 fp8 (5th percentile below 64 KiB of KV).
TEST(DecodeAttentionOnH100, TinyCacheCostsTheFloor) {
  EXPECT_GT(h100_us(llama_layer(1, 16, 16)), 8);
  EXPECT_LT(h100_us(llama_layer(1, 16, 16)), 13);
}

// Measured: half of the best fraction of peak (0.94 / 2 of 3.35 TB/s) is first reached at 64 MiB of bf16 KV.
TEST(DecodeAttentionOnH100, HalfOfPeakNeedsManyMebibytes) {
  const auto peak_fraction = [](std::int64_t num_tasks) {
    const double bytes = static_cast<double>(num_tasks) * 4096 * 512;  // 2 MiB a task
    return bytes / (h100_us(llama_layer(num_tasks, 4096, 16)) * 1e-6) / 3.35e12;
  };
  EXPECT_LT(peak_fraction(8), 0.47);     // 16 MiB
  EXPECT_GT(peak_fraction(66), 0.47);    // 132 MiB
  EXPECT_GT(peak_fraction(2112), 0.85);  // 4.1 GiB
}

// The same 32 MiB of KV. Measured under vLLM: 2048 x 4 tokens 438 us, 64 x 128 26 us, 8 x 1024 18 us (16 KV heads a
// sequence of head_dim 64: 4 KiB a token).
TEST(DecodeAttentionOnH100, TasksCostMoreThanBytes) {
  const auto of = [](std::int64_t batch, std::int64_t tokens) {
    DecodeAttentionWork work = tasks(batch * 16, tokens, static_cast<Bytes>(tokens) * 128, 2048);
    work.head_dim = 64;
    return h100_us(work, L2State::warm);
  };
  EXPECT_GT(of(2048, 4), 10 * of(64, 128));
  EXPECT_GE(of(64, 128), of(8, 1024));
}

// One task more than the SMs starts a second wave; the staircase is flat in between.
TEST(DecodeAttentionOnH100, WaveStaircaseIsVisible) {
  const double one_wave = h100_us(llama_layer(132, 64, 16));
  EXPECT_NEAR(h100_us(llama_layer(120, 64, 16)) / one_wave, 1, 0.01);  // device memory is a little busier
  EXPECT_GT(h100_us(llama_layer(133, 64, 16)), 1.2 * one_wave);
}

TEST(DecodeAttentionOnH100, MoreBytesAreNeverFaster) {
  for (const std::int64_t num_tasks : {1, 8, 64, 200, 1024}) {
    for (const std::int64_t num_entries : {16, 1000, 4096, 30000}) {
      double previous = 0;
      for (const Bytes entry_bytes : {32, 64, 128, 256, 512}) {
        DecodeAttentionWork work = tasks(num_tasks, num_entries, static_cast<Bytes>(num_entries) * entry_bytes);
        work.head_dim = 128;
        const double time = h100_us(work);
        EXPECT_GE(time, previous) << num_tasks << " tasks, " << num_entries << " entries, " << entry_bytes << " B";
        previous = time;
      }
    }
  }
}

// Measured under vLLM on an H100, fp8 gains 0.92 to 1.70 by size at the median, 0.67 to 1.96 for single shapes
// (MeasuredShape.Fp8Gain...): transposing V can cost more than the bytes saved.
TEST(DecodeAttentionOnH100, HalvedBytesGainBetweenEightTenthsAndTwo) {
  for (const std::int64_t num_tasks : {1, 8, 64, 256, 1024}) {
    for (const std::int64_t num_entries : {16, 256, 4096, 32768}) {
      const double gain =
          h100_us(llama_layer(num_tasks, num_entries, 16)) / h100_us(llama_layer(num_tasks, num_entries, 8));
      EXPECT_GE(gain, 0.8) << num_tasks << " tasks of " << num_entries;
      EXPECT_LE(gain, 2.0) << num_tasks << " tasks of " << num_entries;
    }
  }
}

// Field case: pages of 16 and 64 tokens hold the same bytes; a closed-form memory must not tell them apart.
TEST(DecodeAttentionOnH100, PageSizeAloneChangesNothingAtConstantRate) {
  DecodeAttentionWork wide = llama_layer(64, 8192, 16);
  for (PageStream& stream : wide.tasks[0].streams) stream.chunk_bytes *= 4;
  EXPECT_NEAR(h100_us(wide) / h100_us(llama_layer(64, 8192, 16)), 1, 0.015);
}

/// 16 sequences of 8 KV heads, 32,768 entries of fp8 codes: 32,768 x 128 B of K and as many of V, all converted; and fp16 entries.
DecodeAttentionWork fp8_work(std::int64_t num_fp16 = 0) {
  const PageStream codes{32768 * 128, 16 * 128, true};
  AttentionTask task{.streams = {codes, codes},
                     .num_entries = 32768 + num_fp16,
                     .dequantized_elements = 2.0 * 32768 * 128,
                     .count = 128,
                     .fp8_entries = 32768};
  const PageStream exact{static_cast<Bytes>(num_fp16) * 256, 16 * 256};
  if (num_fp16 > 0) task.streams.insert(task.streams.end(), 2, exact);
  DecodeAttentionWork work;
  work.tasks = {task};
  work.query_heads_per_task = 4;
  work.num_sequences = 16;
  return work;
}

/// The same codes, of which nothing says that a kernel could take them.
DecodeAttentionWork converted(DecodeAttentionWork work) {
  work.tasks[0].fp8_entries = 0;
  for (PageStream& stream : work.tasks[0].streams) stream.is_fp8 = false;
  return work;
}

DecodeAttentionWork native(DecodeAttentionWork work) {
  work = converted(std::move(work));
  work.math_bits = 8;
  work.tasks[0].dequantized_elements = 0;
  return work;
}

// H100's FlashAttention-3 takes the codes as they are; A100 has no 8-bit tensor cores and converts them.
TEST(Fp8Entries, GoToTheEightBitKernelWhereThereIsOne) {
  Gpu h100(load_gpu_profile("h100-sxm"), Fidelity::roofline);
  EXPECT_EQ(h100.decode_attention(fp8_work()).duration, h100.decode_attention(native(fp8_work())).duration);
  Gpu a100(load_gpu_profile("a100-sxm-80gb"), Fidelity::roofline);
  EXPECT_EQ(a100.decode_attention(fp8_work()).duration, a100.decode_attention(converted(fp8_work())).duration);
  EXPECT_LT(h100.decode_attention(fp8_work()).duration, h100.decode_attention(converted(fp8_work())).duration);
}

TEST(Fp8Entries, AreConvertedWhereTheFrameworkHasNoSuchKernel) {
  GpuProfile profile = load_gpu_profile("h100-sxm");
  std::erase_if(profile.attention_kernels, [](const AttentionKernel& kernel) { return kernel.scope.math_bits == 8; });
  Gpu gpu(profile, Fidelity::roofline);
  EXPECT_EQ(gpu.decode_attention(fp8_work()).duration, gpu.decode_attention(converted(fp8_work())).duration);
}

// AMD's GPUs have 8-bit matrix units and borrow Ampere's kernels, which convert; a latent row's as every other's. A kernel
// of 16-bit operands stays one when it is asked for by its name.
TEST(Fp8Entries, AreConvertedByKernelsOfSixteenBitOperands) {
  const auto is_native = [](const char* gpu_name, const DecodeAttentionWork& work) {
    Gpu gpu(load_gpu_profile(gpu_name), Fidelity::roofline);
    return gpu.decode_attention(work).duration < gpu.decode_attention(converted(work)).duration;
  };
  DecodeAttentionWork latent = fp8_work();
  latent.is_latent = true;
  latent.query_heads_per_task = 16;
  for (const char* name : {"mi300x", "mi325x", "mi355x"}) {
    EXPECT_GT(load_gpu_profile(name).tensor_flops_8bit, 0);
    EXPECT_FALSE(is_native(name, fp8_work())) << name;
    EXPECT_FALSE(is_native(name, latent)) << name;
  }
  DecodeAttentionWork named = fp8_work();
  named.kernel = "vllm-fa3";
  EXPECT_FALSE(is_native("h100-sxm", named));
  named.kernel = "vllm-fa3-fp8";
  EXPECT_TRUE(is_native("h100-sxm", named));
}

// 68 protected entries are a call of their own, whose output 128 x 4 query rows of 128 channels are joined to the codes' in a third kernel:
// 2 x (131,072 + 2,048) B in and 131,072 B out of L2.
TEST(Fp8Entries, BesideFp16OnesAreACallOfTheirOwn) {
  Gpu gpu(load_gpu_profile("h200-sxm"), Fidelity::roofline);
  DecodeAttentionWork exact;
  exact.tasks = {{.streams = {{68 * 256, 16 * 256}, {68 * 256, 16 * 256}}, .num_entries = 68, .count = 128}};
  exact.query_heads_per_task = 4;
  exact.num_sequences = 16;
  const StreamWork merge{
      .num_blocks = 128, .read_bytes = 266'240, .write_bytes = 131'072, .chunk_bytes = 4096, .input = L2State::warm};
  const KernelTime both = gpu.decode_attention(fp8_work(68));
  const KernelTime codes = gpu.decode_attention(fp8_work());
  const KernelTime rest = gpu.decode_attention(exact);
  EXPECT_EQ(both.duration, codes.duration + rest.duration + gpu.stream(merge).duration);
  EXPECT_EQ(both.hbm_bytes, codes.hbm_bytes + rest.hbm_bytes);
  EXPECT_LT(both.duration, gpu.decode_attention(converted(fp8_work(68))).duration);
}

// One page of codes saves less than two more kernels cost: they are converted in the call that reads everything.
TEST(Fp8Entries, AFewBesideFp16OnesAreConverted) {
  Gpu gpu(load_gpu_profile("h200-sxm"), Fidelity::roofline);
  DecodeAttentionWork few = fp8_work(2048);
  AttentionTask& task = few.tasks[0];
  task.streams[0].bytes = task.streams[1].bytes = 16 * 128;
  task.fp8_entries = 16;
  task.num_entries = 2048 + 16;
  task.dequantized_elements = 2.0 * 16 * 128;
  EXPECT_EQ(gpu.decode_attention(few).duration, gpu.decode_attention(converted(few)).duration);
}

TEST(Fp8Entries, AreNoMoreThanAllEntries) {
  Gpu gpu(load_gpu_profile("h200-sxm"), Fidelity::roofline);
  DecodeAttentionWork work = fp8_work();
  work.tasks[0].fp8_entries = work.tasks[0].num_entries + 1;
  EXPECT_THROW((void)gpu.decode_attention(work), InputError);
}

// DeepSeek-V3's shape as a cache hands it over, without a kernel's name, takes what the validated shape takes.
TEST(LatentRows, GoToTheLatentKernel) {
  for (const char* name : {"h100-sxm", "b200-sxm", "rtx-pro-6000"}) {
    Gpu gpu(load_gpu_profile(name), Fidelity::roofline);
    const DecodeAttentionWork validated =
        mla_decode_work(gpu.profile(), {.batch = 64, .num_entries = 4096, .num_heads = 128}, "");
    DecodeAttentionWork served = validated;
    served.kernel.clear();
    EXPECT_EQ(gpu.decode_attention(served).duration, gpu.decode_attention(validated).duration) << name;
  }
}

}  // namespace
}  // namespace kvtide::gpu
