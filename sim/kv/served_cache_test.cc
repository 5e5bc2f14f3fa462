#include "kv/served_cache.h"

#include <gtest/gtest.h>

#include "kv/cache_timeline.h"

namespace kvtide::kv {
namespace {

Model llama_8b() {
  Model model;
  model.name = "llama-3.1-8b";
  model.num_layers = 32;
  model.num_query_heads = 32;
  model.num_kv_heads = 8;
  model.head_dim = 128;
  return model;
}

RecordedScores recorded(std::int64_t num_positions, std::vector<std::int64_t> layers) {
  RecordedScores scores;
  scores.num_model_layers = 30;
  scores.layers = std::move(layers);
  scores.num_positions = num_positions;
  scores.num_kv_heads = 3;
  for (std::size_t layer = 0; layer < scores.layers.size(); ++layer) {
    LayerScores of_layer(3);
    for (std::size_t head = 0; head < 3; ++head) {
      for (std::int64_t position = 0; position < num_positions; ++position) {
        of_layer[head].push_back(static_cast<double>((position * 7919 + static_cast<std::int64_t>(head) * 13) % 1000));
      }
    }
    scores.scores.push_back(of_layer);
  }
  return scores;
}

Compression block_evict(std::int64_t block_size) {
  Compression setting;
  setting.block_size = block_size;
  setting.stages = {Evict{}};
  return setting;
}

std::int64_t kept(const HeadCache& head) {
  std::int64_t sum = 0;
  for (const Segment& segment : head.segments) sum += segment.end - segment.begin;
  return sum;
}

TEST(ServedCache, UncompressedBytesAreTheModelsOwn) {
  // 131,072 B a token at 32,768 tokens: 4 GiB.
  const ServedCache cache = serve(llama_8b(), Compression{}, recorded(2021, {9, 18}), 32768);
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::per_head).total, 4 * kGiB);
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::shared).total, 4 * kGiB);
}

// architecture.md's example: 256 blocks of 128, keep 0.5 -> 128 blocks, first and last included.
TEST(ServedCache, KeepRuleIsAppliedOnTheServedCount) {
  const ServedCache cache = serve(llama_8b(), block_evict(128), recorded(2021, {9, 18}), 32768);
  ASSERT_EQ(cache.layers.size(), 2u);
  for (const DistinctLayer& layer : cache.layers) {
    for (const HeadCache& head : layer.cache.heads) {
      EXPECT_EQ(kept(head), 128 * 128);
      EXPECT_EQ(head.segments.front().begin, 0);
      EXPECT_EQ(head.segments.back().end, 32768);
    }
    EXPECT_EQ(layer.heads_of_distinct, (std::vector<std::int64_t>{3, 3, 2}));  // 8 heads over 3, by h mod 3
  }
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::per_head).total, 2 * kGiB);
}

// 2 layers, 2 KV heads of 8 channels, 1,024 positions, of which a whole head holds all and a streaming one 16 + 48, 32 B each.
// Layer 0 has two
// whole heads, in layer 1 only head 1 is one: rank 1 holds 2,048 positions, rank 0 1,088. 4 ranks hold each head twice.
TEST(ServedCache, ARankHoldsItsOwnHeads) {
  Model model;
  model.num_layers = 2;
  model.num_query_heads = model.num_kv_heads = 2;
  model.head_dim = 8;
  Compression setting;
  setting.block_size = 1;
  setting.sinks = 16;
  setting.window = 48;
  setting.stages = {Evict{.granularity = Granularity::token}};
  RecordedScores scores = recorded(256, {0});
  scores.budget.kind = LayerBudget::Kind::heads;
  scores.budget.heads = {2, 2, {0.9, 0.8, 0.1, 0.7}};
  scores.budget.head_rule = {.keeps_whole_heads = true, .share = 750'000};
  const ServedCache cache = serve(model, setting, scores, 1024);
  const auto bytes = [&](std::int64_t num_ranks) { return rank_bytes(cache, 16, CacheLayout::per_head, num_ranks); };
  EXPECT_EQ(bytes(1), (std::vector<Bytes>{3136 * 32}));
  EXPECT_EQ(bytes(2), (std::vector<Bytes>{1088 * 32, 2048 * 32}));
  EXPECT_EQ(bytes(4), (std::vector<Bytes>{1088 * 32, 1088 * 32, 2048 * 32, 2048 * 32}));
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(sequence_bytes(part_of_rank(cache, rank, 4), 16, CacheLayout::per_head).total,
              bytes(4)[static_cast<std::size_t>(rank)]);
  }
}

// 8 heads over 3 recorded ones: head h has the choices of h mod 3; on 2 ranks {0, 1, 2, 0} and {1, 2, 0, 1}.
TEST(ServedCache, ARanksHeadsHaveTheChoicesOfTheirRecordedOnes) {
  const ServedCache cache = serve(llama_8b(), block_evict(128), recorded(2021, {9}), 32768);
  EXPECT_EQ(cache.layers.at(0).served_heads(2), (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(part_of_rank(cache, 0, 2).layers.at(0).heads_of_distinct, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(part_of_rank(cache, 1, 2).layers.at(0).heads_of_distinct, (std::vector<std::int64_t>{1, 2, 1}));
}

// Relative depths of recorded layers 9 and 18 of 30: 9/29 = 0.310, 18/29 = 0.621; halfway 0.4655 -> served layer 14.4
// of 31: layers 0..14 take layer 9, layers 15..31 layer 18.
TEST(ServedCache, ServedLayersTakeTheRecordedLayerNearestInDepth) {
  const ServedCache cache = serve(llama_8b(), block_evict(128), recorded(2021, {9, 18}), 32768);
  EXPECT_EQ(cache.layers[0].num_layers, 15);
  EXPECT_EQ(cache.layers[1].num_layers, 17);
}

// The pattern of kept free blocks repeats with the trace's 14 free blocks as long as the score, not a tie, decides.
TEST(ServedCache, FreeBlocksTileTheServedInterior) {
  Compression setting = block_evict(128);
  RecordedScores scores = recorded(2021, {0});
  for (LayerScores& layer : scores.scores) {
    for (auto& head : layer) {
      // Free block i (positions 128 (i+1) ..) scores 1 for i = 3, else 0: one served block in 14.
      for (std::size_t position = 0; position < head.size(); ++position)
        head[position] = position / 128 == 4 ? 1.0 : 0.0;
    }
  }
  std::get<Evict>(setting.stages[0]).keep = 78'125;  // 256 * 0.078125 = 20: 2 protected + 18 free blocks
  const HeadCache head = serve(llama_8b(), setting, scores, 32768).layers[0].cache.heads[0];
  std::vector<std::int64_t> begins;
  for (const Segment& segment : head.segments) begins.push_back(segment.begin / 128);
  std::vector<std::int64_t> expected{0};
  for (std::int64_t tile = 0; tile < 18; ++tile) expected.push_back(1 + 3 + 14 * tile);
  expected.push_back(255);
  EXPECT_EQ(begins, expected);
}

TEST(ServedCache, TraceWithoutFreeBlocksIsFlagged) {
  EXPECT_TRUE(serve(llama_8b(), block_evict(2048), recorded(2021, {9}), 32768).is_arbitrary);
  EXPECT_FALSE(serve(llama_8b(), block_evict(128), recorded(2021, {9}), 32768).is_arbitrary);
}

CacheTimeline timeline(Compression setting, std::int64_t prompt) {
  return CacheTimeline({llama_8b(), std::move(setting), 16, CacheLayout::per_head, 2}, recorded(2021, {9, 18}), prompt);
}

TEST(ServedCache, ALatentVectorIsStoredOnceUnderEveryCodec) {
  // One vector of 512 + 64 elements a token and layer, no values of its own: 1,152 B at 16 bits.
  Model model;
  model.num_layers = 2;
  model.num_query_heads = 16;
  model.num_kv_heads = 1;
  model.head_dim = 576;
  model.layers = {{.count = 2, .k_bytes = 1152, .v_bytes = 0, .num_kv_heads = 1, .is_latent = true}};
  model.kind_of_layer = {0, 0};
  const auto bytes_of = [&model](const std::vector<Stage>& stages) {
    Compression setting;
    setting.stages = stages;
    const ServedCache cache = serve(model, setting, {}, 4096);
    return sequence_bytes(cache, 16, CacheLayout::per_head).total;
  };
  EXPECT_EQ(bytes_of({}), 2U * 4096U * 1152U);
  // Tokens appended since the last compression, too: 16 more are one page of each layer.
  CacheTimeline appended({.model = model, .setting = {}}, {}, 4096);
  for (int step = 0; step < 16; ++step) appended.append();
  EXPECT_EQ(sequence_bytes(appended.held(), 16, CacheLayout::per_head).total, 2U * 4112U * 1152U);
  // fp8 without groups is one byte an element; the blocks of 128 with the sinks and the window stay at 16 bits.
  EXPECT_EQ(bytes_of({Quantize{.k_format = "fp8_e4m3", .v_format = "fp8_e4m3"}}), 2U * (3840U * 576U + 256U * 1152U));
}

Compression unprotected(const std::vector<Stage>& stages) {
  Compression setting;
  setting.sinks = 0;
  setting.window = 0;
  setting.block_size = 1;
  setting.stages = stages;
  return setting;
}

// Two windowed layers of one KV head (64 channels, 256 B a token) beside one that keeps everything; nothing at all in the fourth.
TEST(ServedCache, AWindowedLayerHoldsItsWindowAndALayerWithoutHeadsNothing) {
  Model model;
  model.num_layers = 4;
  model.num_query_heads = 4;
  model.num_kv_heads = 1;
  model.head_dim = 64;
  model.layers = {{.kind = AttentionKind::sliding_attention,
                   .count = 2,
                   .k_bytes = 128,
                   .v_bytes = 128,
                   .window = 512,
                   .num_kv_heads = 1},
                  {.count = 1, .k_bytes = 128, .v_bytes = 128, .num_kv_heads = 1},
                  {.kind = AttentionKind::linear_attention, .count = 1}};
  model.kind_of_layer = {0, 0, 1, 2};
  const auto bytes_at = [&model](std::int64_t num_positions, const Compression& setting = {}) {
    return sequence_bytes(serve(model, setting, {}, num_positions), 16, CacheLayout::per_head).total;
  };
  EXPECT_EQ(bytes_at(4096), (2U * 512U + 4096U) * 256U);
  EXPECT_EQ(bytes_at(256), 3U * 256U * 256U);
  // Entries that are written in a byte an element are so in windows, too; whole blocks that are quantized later are not.
  Compression each = unprotected({Quantize{.k_format = "fp8_e4m3", .v_format = "fp8_e4m3"}});
  EXPECT_EQ(bytes_at(4096, each), (2U * 512U + 4096U) * 128U);
  std::get<Quantize>(each.stages[0]).residual = 128;
  EXPECT_GE(bytes_at(4096, each), 2U * 512U * 256U + 4096U * 128U);
}

TEST(ServedCache, EveryEntryIsQuantizedWhereNothingElseHappens) {
  Compression setting = unprotected({Quantize{}});
  EXPECT_TRUE(quantizes_every_entry(setting));
  setting.sinks = 1;
  EXPECT_FALSE(quantizes_every_entry(setting));
  setting.sinks = 0;
  setting.window = 1;
  EXPECT_FALSE(quantizes_every_entry(setting));
  setting = unprotected({Quantize{}});
  setting.block_size = 2;  // a block waits until it is full
  EXPECT_FALSE(quantizes_every_entry(setting));
  setting.protects_filling_block = false;
  EXPECT_TRUE(quantizes_every_entry(setting));
  EXPECT_FALSE(quantizes_every_entry(unprotected({Quantize{.residual = 1}})));
  EXPECT_FALSE(quantizes_every_entry(unprotected({Evict{}, Quantize{}})));
  EXPECT_FALSE(quantizes_every_entry(unprotected({})));
}

// Case Q5: residual 128, prompt 100 -> flushes at decode steps 28, 156; two more tokens in front: 26, 154.
TEST(CacheTimeline, FlushPhaseMovesWithThePrompt) {
  Quantize stage;
  stage.residual = 128;
  Compression setting;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {stage};
  for (const std::int64_t prompt : {100, 102}) {
    CacheTimeline cache = timeline(setting, prompt);
    std::vector<std::int64_t> flushes;
    for (std::int64_t step = 1; step <= 200; ++step) {
      if (cache.append().flushed_positions > 0) flushes.push_back(step);
    }
    EXPECT_EQ(flushes, (std::vector<std::int64_t>{128 - prompt, 256 - prompt}));
  }
}

// Blocks of 128, window 64: block b is free once position 128 (b+1) + 63 exists; from 1,000 positions these are the
// lengths 1,088, 1,216, 1,344.
TEST(CacheTimeline, BlocksCompleteOncePerBlockSize) {
  CacheTimeline cache = timeline(block_evict(128), 1000);
  std::vector<std::int64_t> lengths;
  while (cache.num_positions() < 1400) {
    if (cache.append().completed_blocks > 0) lengths.push_back(cache.num_positions());
  }
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{1088, 1216, 1344}));
}

TEST(CacheTimeline, AttentionReadsWhatTheCacheStores) {
  CacheTimeline cache = timeline(block_evict(128), 1000);
  for (int step = 0; step < 50; ++step) (void)cache.append();
  Bytes read = 0;
  for (const LayerAttention& layer : cache.attention()) {
    for (const gpu::AttentionTask& task : layer.work.tasks) {
      for (const gpu::PageStream& stream : task.streams) {
        read += stream.bytes * static_cast<Bytes>(task.count) * static_cast<Bytes>(layer.num_layers);
      }
    }
  }
  const ServedCache now = serve(llama_8b(), block_evict(128), recorded(2021, {9, 18}), 1050);
  EXPECT_EQ(read, 2 * sequence_bytes(now, 16, CacheLayout::per_head).total);  // batch 2
}

TEST(CacheTimeline, NothingToCompressMeansNoWork) {
  CacheTimeline identity = timeline(Compression{}, 1023);
  EXPECT_EQ(identity.compression_work(identity.append()).num_blocks, 0);
  CacheTimeline evicting = timeline(block_evict(128), 1087);
  const CacheEvent event = evicting.append();
  EXPECT_EQ(event.completed_blocks, 1);
  EXPECT_EQ(evicting.compression_work(event).num_blocks, 2 * 8);  // batch, heads
}

}  // namespace
}  // namespace kvtide::kv
