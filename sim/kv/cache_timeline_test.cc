#include "kv/cache_timeline.h"

#include <gtest/gtest.h>

#include <map>

namespace kvtide::kv {
namespace {

// Four query heads on two KV heads of 16 channels, three sequences: six heads of KV. A block of 32 positions has 32 x 16 x 2 =
// 1,024 elements
// of K and V a head; the cache holds 100 positions.
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kPositions = 100;

Model small_model() {
  Model model;
  model.num_layers = 1;
  model.num_query_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 16;
  model.hidden_size = 64;
  return model;
}

Compression blocks_of_32(std::vector<Stage> stages) {
  Compression setting;
  setting.block_size = 32;
  setting.sinks = 0;
  setting.window = 8;
  setting.stages = std::move(stages);
  return setting;
}

Evict newest(Rest rest = Rest::dropped) {
  return {.scorer = "newest", .granularity = Granularity::token, .keep = 250000, .rest = rest, .spread = 8};
}

struct Work {
  double flops;
  Bytes read;
  Bytes written;
  bool operator==(const Work&) const = default;
};
void PrintTo(const Work& work, std::ostream* out) {
  *out << work.flops << " flops, " << work.read << " B read, " << work.written << " B written";
}

RecordedScores some_scores() {
  RecordedScores scores;
  scores.num_model_layers = 1;
  scores.num_kv_heads = 2;
  scores.layers = {0};
  scores.num_positions = 4;
  scores.scores = {LayerScores(2, {1, 2, 3, 4})};
  return scores;
}

gpu::CompressBlocksWork whole_work(const Compression& setting, const CacheEvent& event = {.completed_blocks = 1},
                                   const Model& model = small_model(), const CacheSchedule& schedule = {}) {
  const CacheTimeline timeline({.model = model, .setting = setting, .batch = 3, .schedule = schedule}, some_scores(),
                               kPositions);
  return timeline.compression_work(event);
}

/// Of one head.
Work work(const Compression& setting, const CacheEvent& event = {.completed_blocks = 1}) {
  const gpu::CompressBlocksWork whole = whole_work(setting, event);
  EXPECT_EQ(whole.read_bytes % kHeads, 0);
  EXPECT_EQ(whole.write_bytes % kHeads, 0);
  return {whole.flops / kHeads, whole.read_bytes / kHeads, whole.write_bytes / kHeads};
}

/// What settling the evicted costs besides choosing them.
Work settling(Rest rest) {
  const Work with = work(blocks_of_32({newest(rest)}));
  const Work without = work(blocks_of_32({newest()}));
  return {with.flops - without.flops, with.read - without.read, with.written - without.written};
}

TEST(CompressionWork, IsNoneWhereNothingIsDue) {
  EXPECT_EQ(work(blocks_of_32({newest()}), {}), (Work{0, 0, 0}));
  EXPECT_EQ(work(blocks_of_32({})), (Work{0, 0, 0}));
  EXPECT_EQ(whole_work(blocks_of_32({newest()}), {}).num_blocks, 0);
}

// Two blocks are twice the work of one. With a residual the flush of 64 keys is that of the keys of two blocks, as much as K and V of
// one; blocks that fill meanwhile are no work, and a value that leaves the residual is a 32nd of the values of a block.
TEST(CompressionWork, GrowsWithThePositionsThatAreDue) {
  const Compression setting = blocks_of_32({Pool{.width = 4}});
  const Work one = work(setting);
  EXPECT_EQ(work(setting, {.completed_blocks = 2}), (Work{2 * one.flops, 2 * one.read, 2 * one.written}));
  EXPECT_EQ(whole_work(setting, {.completed_blocks = 2}).num_blocks, 12);
  EXPECT_EQ(whole_work(setting, {.recompressed_positions = 96}).num_blocks, 18);
  Quantize int8{.k_format = "int8", .v_format = "int8", .group = 16};
  const Work block = work(blocks_of_32({int8}));
  int8.residual = 64;
  const Compression waiting = blocks_of_32({int8});
  EXPECT_EQ(work(waiting, {.flushed_positions = 64}), block);
  EXPECT_EQ(whole_work(waiting, {.flushed_positions = 64}).num_blocks, 12);
  EXPECT_EQ(work(waiting), (Work{0, 0, 0}));
  EXPECT_EQ(work(waiting, {.flushed_values = 1}), (Work{block.flops / 64, block.read / 64, block.written / 64}));
}

// Every key is summed once (1,024 additions of K and V); of 1,024 elements of 2 B a quarter is written.
// Each query of a group of two against 1,024 elements of the block: 24 queries 8 x 1,024 x 2 = 16,384 flops more than 16. The
// window that is never evicted has no part in it.
TEST(CompressionWork, OfAttentionScoresGrowsWithTheQueriesWatched) {
  const auto flops = [](std::int64_t score_window, std::int64_t protected_window) {
    Compression setting = blocks_of_32({Evict{.scorer = "attention_sum", .keep = 250000}});
    setting.window = protected_window;
    return CacheTimeline({.model = small_model(), .setting = setting, .score_window = score_window}, some_scores(),
                         kPositions)
        .compression_work({.completed_blocks = 1})
        .flops;
  };
  EXPECT_EQ(flops(24, 8) - flops(16, 8), 2 * 16384);  // of two heads
  EXPECT_EQ(flops(24, 0), flops(24, 60));
}

// 24 queries of a group of two against 1,024 elements, two heads: 24 x 2 x 1,024 x 2. A choice by position and a pool ask no query.
TEST(CompressionWork, TellsWhatIsDoneForQueryHeads) {
  const auto query_flops = [](const std::vector<Stage>& stages) {
    const Compression setting = blocks_of_32(stages);
    return CacheTimeline({.model = small_model(), .setting = setting, .score_window = 24}, some_scores(), kPositions)
        .compression_work({.completed_blocks = 1})
        .query_flops;
  };
  EXPECT_EQ(query_flops({Evict{.scorer = "attention_sum", .keep = 250000}}), 98304);
  EXPECT_EQ(query_flops({newest()}), 0);
  EXPECT_EQ(query_flops({Pool{.width = 4}}), 0);
}

TEST(CompressionWork, OfAPoolReadsAllAndWritesTheMeans) {
  EXPECT_EQ(work(blocks_of_32({Pool{.width = 4}})), (Work{1024, 2048, 512}));
}

// The 64 hidden channels of W_o v for the two query heads of a group: 1,024 x 64 x 2; V is read: 512 elements.
TEST(CompressionWork, OfACriticalStageProjectsTheValues) {
  Evict critical = newest();
  critical.critical = CriticalStage{};
  const Work with = work(blocks_of_32({critical}));
  const Work without = work(blocks_of_32({newest()}));
  EXPECT_EQ(with.flops - without.flops, 131072);
  EXPECT_EQ(with.read - without.read, 1024);
}

// 768 elements of evicted tokens, each against the 25 kept of 100 positions.
TEST(CompressionWork, OfMergingComparesEachEvictedKeyWithEachKept) {
  for (const Rest rest : {Rest::values, Rest::weighted, Rest::votes}) EXPECT_EQ(settling(rest), (Work{19200, 2048, 0}));
}

// Brought back to 24 entries from 32: 8 of 32 go, 256 of 1,024 elements, each against 24 keys or spread over 8 followers. The keep
// ratio (that of a context) and the 100 positions play no part.
TEST(CompressionWork, OfMergingToATargetIsThatOfTheEntriesAtHand) {
  const auto settling_to_target = [](Rest rest, PartsPerMillion keep) {
    const auto work_of = [keep](Rest what) {
      Evict stage = newest(what);
      stage.keep = keep;
      return whole_work(blocks_of_32({stage}), {.recompressed_positions = 32}, small_model(),
                        {.decode_target = 24, .decode_every = 8});
    };
    const gpu::CompressBlocksWork with = work_of(rest);
    const gpu::CompressBlocksWork without = work_of(Rest::dropped);
    return Work{(with.flops - without.flops) / kHeads, (with.read_bytes - without.read_bytes) / kHeads, 0};
  };
  for (const PartsPerMillion keep : {10'000, 240'000}) {
    EXPECT_EQ(settling_to_target(Rest::weighted, keep), (Work{6144, 2048, 0}));
    EXPECT_EQ(settling_to_target(Rest::following, keep), (Work{2048, 1024, 0}));
  }
}

// 768 evicted elements of K and V spread over 8 followers; V alone is read.
TEST(CompressionWork, OfSpreadingReadsValuesOnly) {
  EXPECT_EQ(settling(Rest::following), (Work{6144, 1024, 0}));
}

// A cosine, a distance and a weighted sum are 4 flops an element; a sum into one entry is one of each evicted.
TEST(CompressionWork, OfNeighboursAndOfOneEntryReadsAllOnce) {
  EXPECT_EQ(settling(Rest::neighbours), (Work{4096, 2048, 0}));
  EXPECT_EQ(settling(Rest::compensated), (Work{768, 2048, 0}));
}

// int8 in groups of 16 stores 8 bits and a scale and a zero point of 16 for 16: 10 bits. Of the quarter that is kept, 256 elements,
// 512 B are read and 320 B written.
TEST(CompressionWork, OfQuantizingIsThatOfWhatTheStagesBeforeLeave) {
  const Quantize int8{.k_format = "int8", .v_format = "int8", .group = 16};
  const Work without = work(blocks_of_32({newest()}));
  const Work stacked = work(blocks_of_32({newest(), int8}));
  EXPECT_EQ(stacked.read - without.read, 512);
  EXPECT_EQ(stacked.written - without.written, 320);
  const Work alone = work(blocks_of_32({int8}));
  EXPECT_EQ(alone.flops, 4 * (stacked.flops - without.flops));
  EXPECT_EQ(alone.read, 2048);
  EXPECT_EQ(alone.written, 1280);
}

// A latent vector of 16 channels is K and V in one: 512 elements of a block are read, 1,024 B. int8 in groups of 16 writes 10 bits of
// each, 640 B, whatever is said of V; a pool of 4 adds each once and writes a quarter.
TEST(CompressionWork, OfALatentVectorIsThatOfOneTensor) {
  Model model = small_model();
  model.num_kv_heads = 1;
  model.layers = {{.count = 1, .k_bytes = 32, .v_bytes = 0, .num_kv_heads = 1, .is_latent = true}};
  model.kind_of_layer = {0};
  const auto of_sequence = [&model](const Stage& stage) {
    const gpu::CompressBlocksWork whole = whole_work(blocks_of_32({stage}), {.completed_blocks = 1}, model);
    return Work{whole.flops / 3, whole.read_bytes / 3, whole.write_bytes / 3};
  };
  const Work keys = of_sequence(Quantize{.k_format = "int8", .v_format = "fp16", .group = 16});
  EXPECT_EQ(keys.read, 1024);
  EXPECT_EQ(keys.written, 640);
  EXPECT_EQ(of_sequence(Quantize{.k_format = "int8", .v_format = "int8", .group = 16}), keys);
  EXPECT_EQ(of_sequence(Quantize{.k_format = "fp16", .v_format = "int8", .group = 16}), (Work{0, 0, 0}));
  EXPECT_EQ(of_sequence(Pool{.width = 4}), (Work{512, 1024, 128 * 2}));
}

// Two products and a sum an element that moves: ranks close behind every gap (100 keys of 16 channels), smoothing turns the
// new block's 512 elements alone; a quarter of either is there.
TEST(CompressionWork, OfMovedPositionsTurnsTheKeysThatMove) {
  Compression setting = blocks_of_32({newest()});
  const Work original = work(setting);
  setting.positions = PositionCoding::contiguous;
  const Work contiguous = work(setting);
  EXPECT_EQ(contiguous.flops - original.flops, 1200);
  EXPECT_EQ(contiguous.read - original.read, 800);
  EXPECT_EQ(contiguous.written - original.written, 800);
  setting.positions = PositionCoding::smooth;
  const Work smooth = work(setting);
  EXPECT_EQ(smooth.flops - original.flops, 384);
  EXPECT_EQ(smooth.read - original.read, 256);
  EXPECT_EQ(smooth.written - original.written, 256);
}

// Brought back to 24 entries from 32 every 8 tokens: all 24 keys of 16 channels close ranks, 384 elements; of the 8 new ones smoothing
// turns the 6 that stay, 96.
TEST(CompressionWork, ToATargetTurnsTheKeysThatStay) {
  const auto turning = [](PositionCoding coding) {
    const auto work_of = [](PositionCoding positions) {
      Compression setting = blocks_of_32({newest()});
      setting.positions = positions;
      return whole_work(setting, {.recompressed_positions = 32}, small_model(),
                        {.decode_target = 24, .decode_every = 8});
    };
    const gpu::CompressBlocksWork with = work_of(coding);
    const gpu::CompressBlocksWork without = work_of(PositionCoding::original);
    return Work{(with.flops - without.flops) / kHeads, (with.read_bytes - without.read_bytes) / kHeads,
                (with.write_bytes - without.write_bytes) / kHeads};
  };
  EXPECT_EQ(turning(PositionCoding::contiguous), (Work{3 * 384, 768, 768}));
  EXPECT_EQ(turning(PositionCoding::smooth), (Work{3 * 96, 192, 192}));
}

// A projection of K and V, 16 channels each, onto a basis of 4 that is there: 2 x 512 x 4 x 2 flops; a quarter is written. The basis of a
// block itself costs 6 B d min(B, d) + 20 min(B, d)^3 = 6 x 32 x 16 x 16 + 20 x 16^3 a tensor.
TEST(CompressionWork, OfLowRankIsAProjectionOrADecomposition) {
  EXPECT_EQ(work(blocks_of_32({LowRank{.rank = 4, .scope = BasisScope::sequence}})), (Work{8192, 2048, 512}));
  EXPECT_EQ(work(blocks_of_32({LowRank{.rank = 4, .scope = BasisScope::block}})), (Work{262144, 2048, 512}));
  EXPECT_EQ(work(blocks_of_32({LowRank{.rank = 16, .scope = BasisScope::block}})), (Work{0, 0, 0}));
  EXPECT_EQ(work(blocks_of_32({LowRank{.rank = 4, .scope = BasisScope::block}}), {.completed_blocks = 2}),
            (Work{524288, 4096, 1024}));
}

std::vector<LayerAttention> attention_over(const Model& model, const Compression& setting) {
  return CacheTimeline({.model = model, .setting = setting}, some_scores(), kPositions).attention();
}

struct Fp8 {
  std::int64_t entries;
  std::int64_t of;
  bool operator==(const Fp8&) const = default;
};
void PrintTo(const Fp8& fp8, std::ostream* out) {
  *out << fp8.entries << " of " << fp8.of;
}

Fp8 fp8_of(const LayerAttention& layer) {
  Fp8 sum{0, 0};
  for (const gpu::AttentionTask& task : layer.work.tasks) {
    sum.entries += task.fp8_entries;
    sum.of += task.num_entries;
    // What is fp8 and what is not is read apart.
    for (const gpu::PageStream& stream : task.streams) {
      if (task.fp8_entries == 0 || task.fp8_entries == task.num_entries) {
        EXPECT_EQ(stream.is_fp8, task.fp8_entries > 0);
      }
    }
  }
  return sum;
}

Quantize fp8_codes() {
  return {.k_format = "fp8_e4m3", .v_format = "fp8_e4m3", .group = 16};
}

Fp8 fp8_under(const std::vector<Stage>& stages, std::int64_t window) {
  Compression setting = blocks_of_32(stages);
  setting.window = window;
  return fp8_of(attention_over(small_model(), setting).at(0));
}

// Engines write fp8 entry by entry: without a protected position all 100 are codes, the 4 of a block that is not full too. A window of 8
// protects the blocks from position 64 on. Other codes are no operands of 8-bit kernels, nor are keys of one form and values of another.
TEST(Attention, MarksWhatEightBitKernelsTakeAsItIs) {
  EXPECT_EQ(fp8_under({fp8_codes()}, 0), (Fp8{100, 100}));
  EXPECT_EQ(fp8_under({fp8_codes()}, 8), (Fp8{64, 100}));
  Quantize other = fp8_codes();
  other.v_format = "int8";
  EXPECT_EQ(fp8_under({other}, 0), (Fp8{0, 100}));
  other.v_format = "fp16";
  EXPECT_EQ(fp8_under({other}, 0), (Fp8{0, 100}));
  other.k_format = other.v_format = "fp8_e5m2";
  EXPECT_EQ(fp8_under({other}, 0), (Fp8{0, 100}));
  EXPECT_EQ(fp8_under({LowRank{.rank = 4, .scope = BasisScope::model}, fp8_codes()}, 0), (Fp8{0, 100}));
}

// A quarter of 100 positions of either head stays, in fp8 but for what the last block holds: all of it is read as codes.
TEST(Attention, MarksWhatAnEvictionLeaves) {
  const Fp8 kept = fp8_under({newest(), fp8_codes()}, 0);
  EXPECT_GT(kept.of, 0);
  EXPECT_EQ(kept.entries, kept.of);
}

// A model's window, or one that layers below a shared depth are given, has its entries in fp8 where an engine writes each so; a setting
// that waits or protects leaves it in fp16.
TEST(Attention, OverAWindowIsOverFp8WhereEveryEntryIs) {
  Compression setting = blocks_of_32({fp8_codes()});
  setting.window = 0;
  Model model = small_model();
  model.num_layers = 2;
  model.layers = {{.count = 1, .k_bytes = 64, .v_bytes = 64, .num_kv_heads = 2},
                  {.kind = AttentionKind::sliding_attention,
                   .count = 1,
                   .k_bytes = 64,
                   .v_bytes = 64,
                   .window = 48,
                   .num_kv_heads = 2}};
  model.kind_of_layer = {0, 1};
  const auto fp8_by_window = [&](const LayerSharing& sharing) {
    const CacheTimeline timeline({.model = model, .setting = setting, .sharing = sharing}, some_scores(), kPositions);
    std::map<bool, std::int64_t> entries;
    for (const LayerAttention& layer : timeline.attention()) entries[layer.kind.window > 0] = fp8_of(layer).entries;
    return entries;
  };
  EXPECT_EQ(fp8_by_window({}), (std::map<bool, std::int64_t>{{false, 100}, {true, 0}}));
  setting.window = 8;
  EXPECT_EQ(fp8_by_window({}), (std::map<bool, std::int64_t>{{false, 64}, {true, 0}}));
  setting.window = 0;
  setting.block_size = 1;
  EXPECT_EQ(fp8_by_window({}), (std::map<bool, std::int64_t>{{false, 100}, {true, 48}}));
  setting.stages.insert(setting.stages.begin(), newest());
  EXPECT_EQ(fp8_by_window({})[true], 0);
  setting.stages.erase(setting.stages.begin());
  model.layers.pop_back();
  model.layers[0].count = 2;
  model.kind_of_layer = {0, 0};
  EXPECT_EQ(fp8_by_window({.group = 0, .from = 500'000, .window = 48}),
            (std::map<bool, std::int64_t>{{false, 100}, {true, 48}}));
}

// A latent vector is K and V in one, whatever is said of V.
TEST(Attention, OverLatentCodesNeedsKeysAlone) {
  Model model = small_model();
  model.num_kv_heads = 1;
  model.layers = {{.count = 1, .k_bytes = 32, .v_bytes = 0, .num_kv_heads = 1, .is_latent = true}};
  model.kind_of_layer = {0};
  Quantize keys = fp8_codes();
  keys.v_format = "fp16";
  Compression setting = blocks_of_32({keys});
  EXPECT_EQ(fp8_of(attention_over(model, setting).at(0)), (Fp8{64, 100}));
  setting.window = 0;
  EXPECT_EQ(fp8_of(attention_over(model, setting).at(0)), (Fp8{100, 100}));
}

// Quest over 96 positions: 6 pages of 16, 2 vectors of 16 channels each; 3 sequences of 2 heads choose. The kernel that scores reads
// 6 x 12 x 32 B of digests and 6 x 2 queries of 32 B; attention reads entries alone. Where all pages are read nothing is chosen.
TEST(Attention, OverChosenPagesIsPrecededByTheChoice) {
  const auto first_layer = [](const std::string& scorer, PartsPerMillion keep, Rest rest) {
    Compression setting = blocks_of_32({Evict{.scorer = scorer, .keep = keep, .rest = rest}});
    setting.window = 0;
    return CacheTimeline({.model = small_model(), .setting = setting, .batch = 3}, some_scores(), 96).attention().at(0);
  };
  for (const Rest rest : {Rest::unread, Rest::host}) {
    const LayerAttention layer = first_layer("quest", 330'000, rest);
    ASSERT_EQ(layer.selection.size(), 2u);
    EXPECT_EQ(layer.selection[0].read_bytes, 6u * 12 * 32 + 6 * 2 * 32);
    EXPECT_EQ(layer.selection[0].write_bytes, 6u * 6 * 4);
    EXPECT_EQ(layer.selection[1].write_bytes, 6u * 2 * 4);  // one block of 32: 2 pages
    for (const gpu::AttentionTask& task : layer.work.tasks) {
      for (const gpu::PageStream& stream : task.streams) EXPECT_EQ(stream.bytes, 32u * 32);
    }
  }
  EXPECT_TRUE(first_layer("quest", 330'000, Rest::dropped).selection.empty());
  EXPECT_TRUE(first_layer("knorm", 330'000, Rest::unread).selection.empty());
  EXPECT_TRUE(first_layer("quest", 1'000'000, Rest::unread).selection.empty());
}

// A latent of 24 and a rotary part of 8: 32 stored channels, products of 32 and 24, 28 in the mean.
TEST(Attention, OverLatentRowsHasTheMeanWidthOfItsProducts) {
  Model model = small_model();
  model.num_kv_heads = 1;
  model.head_dim = 32;
  model.latent = {.kv_rank = 24, .rope_dim = 8, .nope_dim = 16, .value_dim = 16};
  model.layers = {{.count = 1, .k_bytes = 64, .v_bytes = 0, .num_kv_heads = 1, .is_latent = true}};
  model.kind_of_layer = {0};
  const LayerAttention layer = attention_over(model, blocks_of_32({})).at(0);
  EXPECT_TRUE(layer.work.is_latent);
  EXPECT_EQ(layer.work.head_dim, 28);
  EXPECT_FALSE(attention_over(small_model(), blocks_of_32({})).at(0).work.is_latent);
}

}  // namespace
}  // namespace kvtide::kv
