#include "gpu/prefill_attention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

/// 100 SMs at 1 GHz, 10 TFLOP/s each, and one kernel with round constants: a score of head_dim 128 costs
/// 4 x 128 / (0.5 x 10e12) + 1 / (10 x 1e9) = 102.4 + 100 = 202.4 ps, a tile of 128 x 128 of them 3.316 us.
class RoundPrefill : public testing::Test {
 protected:
  RoundPrefill() {
    profile_.num_sms = 100;
    profile_.clock = 1e9;
    profile_.tensor_flops_16bit = 1e15;
    profile_.graph_launch_latency = 1e-6;
    profile_.l2_bandwidth = 1e15;
    profile_.l2_bytes = Bytes{1} << 40;
    PrefillKernel kernel;
    kernel.name = kernel.framework = "round";
    kernel.tile_queries = 128;
    kernel.tiles = {{128, 128}, {256, 128}};
    kernel.fixed_time = 10e-6;
    kernel.tensor_efficiency = 0.5;
    kernel.scores_per_clock = 10;
    profile_.kernels.prefill = {kernel};
  }
  double microseconds(const PrefillAttentionWork& work, L2State l2 = L2State::warm) {
    return to_microseconds(time_prefill_attention(profile_, memory_, work, l2).duration);
  }
  static PrefillAttentionWork work(std::int64_t num_new, std::int64_t heads) {
    PrefillAttentionWork work;
    work.sequences = {{.num_new = num_new}};
    work.heads = heads;
    return work;
  }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory_{3e12, 1};
};

TEST(TouchedTiles, CausalRowsSeeEarlierKeysAndAWindowHidesThem) {
  EXPECT_EQ(touched_tiles(0, 127, 0, 128), 1);
  EXPECT_EQ(touched_tiles(128, 255, 0, 128), 2);
  EXPECT_EQ(touched_tiles(128, 256, 0, 128), 3);  // one row in the third tile
  // Row 200 with a window of 73 sees keys 128..200, with 74 also key 127 of the tile before.
  EXPECT_EQ(touched_tiles(200, 255, 73, 128), 1);
  EXPECT_EQ(touched_tiles(200, 255, 74, 128), 2);
}

// 256 tokens: query tiles with 1 and 2 key tiles a head. 100 heads on 100 SMs: first the 100 long blocks, then the 100
// short: 3 tiles = 9.948 us, + 1 launch + 10 fixed.
TEST_F(RoundPrefill, CausalTilesRunLongestFirst) {
  EXPECT_NEAR(microseconds(work(256, 100)), 20.948, 0.02);
  // One head: two SMs work, the longer block counts: 2 tiles = 6.632.
  EXPECT_NEAR(microseconds(work(256, 1)), 17.632, 0.02);
  // 101 heads: 101 long blocks need a second wave, in which the last long block ends: 4 tiles = 13.264.
  EXPECT_NEAR(microseconds(work(256, 101)), 24.264, 0.02);
}

// 128 new tokens over 256 cached: one query tile with 3 key tiles.
TEST_F(RoundPrefill, CachedContextIsAttendedByNewTokensOnly) {
  PrefillAttentionWork chunk = work(128, 1);
  chunk.sequences[0].num_cached = 256;
  EXPECT_NEAR(microseconds(chunk), 11 + 3 * 3.316, 0.02);
  chunk.window = 128;  // keys 129..383 of the first row on: tiles 1 and 2
  EXPECT_NEAR(microseconds(chunk), 11 + 2 * 3.316, 0.02);
}

// 16 tokens x 8 heads of one KV head: packed they fill one tile of 128 rows, apart they are 8 blocks; with 800 KV heads
// 800 packed blocks are 8 waves, 6400 separate ones 64.
TEST_F(RoundPrefill, PackedGroupsFillTheTilesOfShortPrompts) {
  PrefillAttentionWork shared = work(16, 6400);
  shared.kv_heads = 800;
  EXPECT_NEAR(microseconds(shared), 11 + 64 * 3.316, 0.1);
  profile_.kernels.prefill[0].packs_group = true;
  EXPECT_NEAR(microseconds(shared), 11 + 8 * 3.316, 0.1);
}

TEST_F(RoundPrefill, HeadDimIsPaddedToTheCompiledOne) {
  PrefillAttentionWork wide = work(128, 1);
  wide.head_dim = 192;
  const double padded = microseconds(wide);
  wide.head_dim = 256;
  EXPECT_NEAR(microseconds(wide), padded, 0.02);
  wide.head_dim = 128;
  EXPECT_LT(microseconds(wide), padded - 1);
}

// One head of 1e6 cached tokens: 2 x 128 x 2 B x 1e6 = 512 MB at 3 TB/s = 170.7 us, more than its one block of
// 7813 key tiles when a score is nearly free.
TEST_F(RoundPrefill, ColdContextComesFromDeviceMemory) {
  PrefillKernel& kernel = profile_.kernels.prefill[0];
  kernel.tensor_efficiency = 1;
  kernel.scores_per_clock = 1e6;
  profile_.tensor_flops_16bit = 1e19;
  PrefillAttentionWork chunk = work(1, 1);
  chunk.sequences[0].num_cached = 1'000'000;
  EXPECT_NEAR(microseconds(chunk, L2State::cold), 11 + 170.7, 1);
  EXPECT_LT(microseconds(chunk, L2State::warm), 60);
}

// 1000 tokens of 2 heads of 128: 256,000 elements of q at 1 ns of one SM each over 100 SMs are 2.56 us; 1000 tokens of
// 100 ns 1 us.
TEST_F(RoundPrefill, TokensAndQueriesCostTheirPasses) {
  const double plain = microseconds(work(1000, 2));
  profile_.kernels.prefill[0].query_time = 1e-9;
  EXPECT_NEAR(microseconds(work(1000, 2)), plain + 2.56, 0.01);
  profile_.kernels.prefill[0].append_time = 100e-9;
  EXPECT_NEAR(microseconds(work(1000, 2)), plain + 3.56, 0.01);
}

TEST_F(RoundPrefill, NothingNewLaunchesNothing) {
  EXPECT_EQ(microseconds(work(0, 8)), 0);
  EXPECT_EQ(microseconds({}), 0);
}

TEST_F(RoundPrefill, ImpossibleShapesAreRefused) {
  PrefillAttentionWork wrong = work(16, 5);
  wrong.kv_heads = 4;
  EXPECT_THROW((void)microseconds(wrong), InputError);
  EXPECT_THROW((void)microseconds(work(-1, 1)), InputError);
  wrong = work(16, 1);
  wrong.head_dim = 0;
  EXPECT_THROW((void)microseconds(wrong), InputError);
  wrong = work(std::int64_t{1} << 31, 65536);  // as many query tiles as would take long to count
  EXPECT_THROW((void)microseconds(wrong), InputError);
}

// A GPU that nobody measured borrows the nearest architecture's kernels, whatever framework is asked for.
TEST(PrefillAttention, EveryProfileTimesEveryStoredForm) {
  for (const std::string& name : known_gpus()) {
    const GpuProfile profile = load_gpu_profile(name);
    ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
    for (const char* framework : {"", "vllm", "trtllm", "sglang", "another"}) {
      for (const std::int64_t kv_bits : {16, 8, 4}) {
        PrefillAttentionWork work;
        work.sequences = {{.num_new = 1024, .count = 2}};
        work.heads = 32;
        work.kv_heads = 8;
        work.kv_bits = kv_bits;
        work.kernel = framework;
        const double time = to_microseconds(time_prefill_attention(profile, memory, work, L2State::cold).duration);
        // 2 x 32 heads x 1024 x 1025 / 2 scores x 512 FLOP at the full 16-bit rate (twice that at most), and a second.
        EXPECT_GT(time, 17.2e9 / profile.tensor_flops_16bit / 2 * 1e6) << name << framework << kv_bits;
        EXPECT_LT(time, 1e5) << name << framework << kv_bits;
      }
    }
  }
}

}  // namespace
}  // namespace kvtide::gpu
