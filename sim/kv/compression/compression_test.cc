#include "kv/compression/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "kv/cache_layout.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

using ::testing::HasSubstr;

Compression setting_of(std::int64_t block_size, std::vector<Stage> stages, std::int64_t sinks = 0,
                       std::int64_t window = 0) {
  Compression setting;
  setting.block_size = block_size;
  setting.sinks = sinks;
  setting.window = window;
  setting.stages = std::move(stages);
  return setting;
}

Evict evict(PartsPerMillion keep, Granularity granularity = Granularity::block, HeadScope heads = HeadScope::per_head) {
  Evict stage;
  stage.keep = keep;
  stage.granularity = granularity;
  stage.heads = heads;
  return stage;
}

std::vector<std::int64_t> kept_positions(const HeadCache& head) {
  std::vector<std::int64_t> kept;
  for (const Segment& segment : head.segments) {
    for (std::int64_t position = segment.begin; position < segment.end; ++position) kept.push_back(position);
  }
  return kept;
}

std::int64_t num_kept(const HeadCache& head) {
  return static_cast<std::int64_t>(kept_positions(head).size());
}

std::vector<double> rising(std::int64_t n) {
  std::vector<double> scores;
  for (std::int64_t position = 0; position < n; ++position) scores.push_back(static_cast<double>(position));
  return scores;
}

// Field case Q6: the identity keeps every row bit for bit, whatever the block size.
TEST(CompressLayer, IdentityKeepsEveryRowBitForBit) {
  const LayerTensors layer = testing::random_layer(2, 300, 8, 1);
  for (const std::int64_t block_size : {1, 16, 64, 128, 1000}) {
    const LayerCache cache = compress_layer(setting_of(block_size, {}), 280, 2, 8, {}, &layer);
    for (std::size_t head = 0; head < 2; ++head) {
      ASSERT_TRUE(cache.heads[head].entries.has_value());
      EXPECT_EQ(cache.heads[head].entries->k, layer[head].k_post);
      EXPECT_EQ(cache.heads[head].entries->v, layer[head].v);
      EXPECT_EQ(num_kept(cache.heads[head]), 300);
    }
  }
}

TEST(CompressLayer, KeepOneAndWidthOneAreTheIdentity) {
  const LayerTensors layer = testing::random_layer(1, 256, 8, 2);
  const LayerCache cache = compress_layer(setting_of(64, {evict(1'000'000), Pool{1, RopeState::post, true}}), 256, 1, 8,
                                          {rising(256)}, &layer);
  EXPECT_EQ(cache.heads[0].entries->k, layer[0].k_post);
  EXPECT_EQ(num_kept(cache.heads[0]), 256);
}

// 8 blocks of 32, scores rise with position: keep 0.5 leaves blocks 4..7.
TEST(CompressLayer, BlockEvictionKeepsTheHighestBlocks) {
  const LayerCache cache = compress_layer(setting_of(32, {evict(500'000)}), 256, 1, 8, {rising(256)}, nullptr);
  ASSERT_EQ(cache.heads[0].segments.size(), 1u);
  EXPECT_EQ(cache.heads[0].segments[0].begin, 128);
  EXPECT_EQ(cache.heads[0].segments[0].end, 256);
}

TEST(CompressLayer, ProtectedBlocksStayAndCountInsideTheBudget) {
  // 8 blocks of 32; 4 sinks protect block 0, window 40 protects blocks 6 and 7. keep 0.5 -> 4: block 5 has the best
  // free score.
  const LayerCache cache = compress_layer(setting_of(32, {evict(500'000)}, 4, 40), 256, 1, 8, {rising(256)}, nullptr);
  ASSERT_EQ(cache.heads[0].segments.size(), 2u);
  EXPECT_EQ(cache.heads[0].segments[0].end, 32);
  EXPECT_EQ(cache.heads[0].segments[1].begin, 160);
  // keep 0.25 -> 2 would be fewer than the 3 protected ones: those 3 stay.
  EXPECT_EQ(
      num_kept(compress_layer(setting_of(32, {evict(250'000)}, 4, 40), 256, 1, 8, {rising(256)}, nullptr).heads[0]),
      96);
}

TEST(CompressLayer, EqualScoresKeepTheEarlierBlock) {
  const std::vector<double> flat(256, 1.0);
  const LayerCache cache = compress_layer(setting_of(32, {evict(250'000)}), 256, 1, 8, {flat}, nullptr);
  EXPECT_EQ(kept_positions(cache.heads[0]).back(), 63);
}

// Field case Q1: keeping 50 % of 50 % keeps 25 %; 70 % then 60 % keeps 42 %.
TEST(CompressLayer, KeptFractionsOfAStackMultiply) {
  const auto kept_share = [](PartsPerMillion first, PartsPerMillion second) {
    const Compression setting = setting_of(1, {evict(first), evict(second)});
    return num_kept(compress_layer(setting, 1000, 1, 8, {rising(1000)}, nullptr).heads[0]);
  };
  EXPECT_EQ(kept_share(500'000, 500'000), 250);
  EXPECT_EQ(kept_share(700'000, 600'000), 420);
}

// Field case Q7: 300 positions, 4 sinks + 124 recent by token eviction. Protected tokens live in whole blocks, so
// block_size 1.
TEST(CompressLayer, PositionsSurviveEviction) {
  Compression setting = setting_of(1, {evict(1, Granularity::token)}, 4, 124);
  const LayerTensors layer = testing::random_layer(1, 300, 8, 3);
  const HeadCache head = compress_layer(setting, 300, 1, 8, {rising(300)}, &layer).heads[0];
  ASSERT_EQ(head.segments.size(), 2u);
  EXPECT_EQ(head.segments[0].end, 4);
  EXPECT_EQ(head.segments[1].begin, 176);
  EXPECT_EQ(head.num_positions, 300);  // the next token's position
  EXPECT_EQ(std::ranges::count(head.entries->entry_of, -1), 172);
}

TEST(CompressLayer, SharedHeadsChooseTheSameBlocks) {
  std::vector<double> falling = rising(256);
  std::ranges::reverse(falling);
  for (double& score : falling) score *= 10;  // head 1 prefers the early blocks, more strongly
  const LayerCache shared = compress_layer(setting_of(32, {evict(500'000, Granularity::block, HeadScope::shared)}), 256,
                                           2, 8, {rising(256), falling}, nullptr);
  EXPECT_EQ(kept_positions(shared.heads[0]), kept_positions(shared.heads[1]));
  EXPECT_EQ(kept_positions(shared.heads[0]).front(), 0);
  const LayerCache own = compress_layer(setting_of(32, {evict(500'000)}), 256, 2, 8, {rising(256), falling}, nullptr);
  EXPECT_EQ(kept_positions(own.heads[0]).front(), 128);
  EXPECT_EQ(kept_positions(own.heads[1]).front(), 0);
}

// Field case Q4: 2 bit, group 32, residual 32, d = 128, 32 prompt + 168 decoded = 200 tokens, one head.
// Keys: 192 quantized + 8 fp16: 192*128*2/8 + 6*128*4 + 8*128*2 = 6,144 + 3,072 + 2,048 B.
// Values: 168 quantized + 32 fp16: 168*128*2/8 + 168*4*4 + 32*128*2 = 5,376 + 2,688 + 8,192 B.
TEST(CompressLayer, ResidualWindowKeepsKeysByFlushAndValuesBySlide) {
  Quantize stage;
  stage.k_format = stage.v_format = "int2";
  stage.residual = 32;
  const LayerTensors layer = testing::random_layer(1, 200, 128, 4);
  const HeadPools pools = packed_pools(compress_layer(setting_of(32, {stage}), 200, 1, 128, {}, &layer).heads[0], 1);
  ASSERT_EQ(pools.k.size(), 2u);
  EXPECT_EQ(pools.k[0].num_entries, 192);
  EXPECT_EQ(pools.k[0].payload_bytes + pools.k[0].metadata_bytes, 6144u + 3072u);
  EXPECT_EQ(pools.k[1].payload_bytes, 2048u);
  ASSERT_EQ(pools.v.size(), 2u);
  EXPECT_EQ(pools.v[0].num_entries, 168);
  EXPECT_EQ(pools.v[0].payload_bytes + pools.v[0].metadata_bytes, 5376u + 2688u);
  EXPECT_EQ(pools.v[1].payload_bytes, 8192u);
}

// Case Q5: fp16 keys after a total of n positions: n mod residual.
TEST(CompressLayer, UnflushedKeysAreLengthModuloResidual) {
  Quantize stage;
  stage.residual = 128;
  for (const std::int64_t n : {127, 128, 129, 228, 256}) {
    const HeadPools pools = packed_pools(compress_layer(setting_of(128, {stage}), n, 1, 64, {}, nullptr).heads[0], 1);
    std::int64_t fp16 = 0;
    for (const PagePool& pool : pools.k) fp16 += pool.form.kind == StoredForm::Kind::fp16 ? pool.num_entries : 0;
    EXPECT_EQ(fp16, n % 128) << n;
  }
}

// Field case C11: 2 bits with a 16-bit scale and zero point per 128, 64, 32 values: 2.25, 2.5, 3 bits; with the 30 %
// rank cut of the report 1 - 0.7 * bits / 16 = 90.16, 89.06, 86.88 %.
TEST(CompressLayer, MetadataIsPartOfTheBytes) {
  const auto saving = [](std::int64_t group) {
    Quantize stage;
    stage.k_format = stage.v_format = "int2";
    stage.group = group;
    const HeadPools pools =
        packed_pools(compress_layer(setting_of(128, {stage}), 128, 1, 128, {}, nullptr).heads[0], 1);
    const Bytes bytes = layer_bytes({pools}).total;
    return 100 * (1 - 0.7 * static_cast<double>(bytes) / (2.0 * 128 * 128 * 2));
  };
  EXPECT_NEAR(saving(128), 90.16, 0.005);
  EXPECT_NEAR(saving(64), 89.06, 0.005);
  EXPECT_NEAR(saving(32), 86.88, 0.005);
}

TEST(CompressLayer, StackEvictThenQuantizeMultipliesBytes) {
  // 8 blocks of 32, half kept: 128 entries; int4 group 32: (4 + 1) / 16 of 2 B each -> 128 * 8 * 2 * 5/16 = 640 B for
  // K.
  Quantize stage;
  stage.v_axis = GroupAxis::channel;
  const HeadPools pools = packed_pools(
      compress_layer(setting_of(32, {evict(500'000), stage}), 256, 1, 8, {rising(256)}, nullptr).heads[0], 1);
  EXPECT_EQ(layer_bytes({pools}).total, 2u * 640u);
}

TEST(CompressLayer, LowRankStoresCoefficientsAndBasis) {
  // Two blocks of 128, rank 32 of 128: K 2 * (128*32 + 32*128) * 2 B = 32,768 B, half of 65,536.
  const HeadPools pools =
      packed_pools(compress_layer(setting_of(128, {LowRank{32}}), 256, 1, 128, {}, nullptr).heads[0], 16);
  EXPECT_EQ(pools.k[0].payload_bytes + pools.k[0].metadata_bytes, 32768u);
}

TEST(CompressLayer, LowRankOfAnExactlyLowRankBlockLosesOnlyRounding) {
  LayerTensors layer = testing::random_layer(1, 64, 16, 5, 0);
  // Rank 2 by construction: rows are combinations of two fixed rows.
  const RowMatrix basis = layer[0].v.topRows(2);
  for (std::int64_t row = 0; row < 64; ++row) {
    layer[0].v.row(row) = static_cast<float>(row % 4) * basis.row(0) + static_cast<float>(row % 3) * basis.row(1);
  }
  const HeadCache head = compress_layer(setting_of(64, {LowRank{2}}), 64, 1, 16, {}, &layer).heads[0];
  // fp16 keeps 11 bits: relative error about 2 * 2^-11 of the largest coefficient (|row| up to 3*4 + 2*4).
  EXPECT_LT((head.entries->v - layer[0].v).cwiseAbs().maxCoeff(), 0.03F);
  EXPECT_GT((head.entries->k - layer[0].k_post).cwiseAbs().maxCoeff(), 0.5F);  // a Gaussian block is not of rank 2
}

TEST(Contradictions, NameBothNumbersAndWhatWouldWork) {
  Quantize stage;
  // Field case C10: head_dim 80 with groups of 32.
  const auto problems = contradictions(setting_of(128, {stage}), 80);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr("32"));
  EXPECT_THAT(problems[0], HasSubstr("80"));
  EXPECT_THAT(problems[0], HasSubstr("2, 4, 5, 8, 10, 16, 20, 40, 80"));
  stage.group = 16;
  EXPECT_TRUE(contradictions(setting_of(128, {stage}), 80).empty());
}

TEST(Contradictions, OverlapIsAboveNothingAndAtMostHalf) {
  Compression setting = setting_of(64, {});
  setting.partition.kind = PartitionKind::overlap;
  for (const auto& [ppm, num_problems] : {std::pair{0, 1}, {1, 0}, {500'000, 0}, {500'001, 1}, {-1, 1}}) {
    setting.partition.overlap_ppm = ppm;
    EXPECT_THAT(contradictions(setting, 64), ::testing::SizeIs(num_problems)) << ppm;
  }
}

TEST(Contradictions, StagesInAnImpossibleOrderAreRefused) {
  EXPECT_THAT(contradictions(setting_of(64, {Quantize{}, Pool{4}}), 64), ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {Quantize{}, Quantize{}}), 64), ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {Quantize{}, LowRank{8}}), 64), ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {Quantize{}, evict(500'000, Granularity::token)}), 64),
              ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {evict(0)}), 64), ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {Pool{65}}), 64), ::testing::SizeIs(1));
  EXPECT_THAT(contradictions(setting_of(64, {evict(500'000), Pool{64}, Quantize{}}), 64), ::testing::IsEmpty());
  EXPECT_THROW((void)compress_layer(setting_of(0, {}), 10, 1, 8, {}, nullptr), InputError);
}

}  // namespace
}  // namespace kvtide::kv
