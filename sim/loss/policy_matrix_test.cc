// One policy, two observers: what must hold for every way to choose, whoever wrote it. A new scorer is a row of its own
// through the table; a new way to spend the budget adds a line to variants().

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kv/cache_timeline.h"
#include "kv/compression/importance.h"
#include "kv/testing/random_layer.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPositions = 200;  ///< recorded, queries at each
constexpr std::int64_t kCompressed = 180;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kHeadDim = 16;

struct Row {
  std::string name;
  kv::Compression setting;
  [[nodiscard]] const kv::Evict& stage() const { return std::get<kv::Evict>(setting.stages.front()); }
};

kv::Compression with(const std::string& scorer, std::int64_t block_size, kv::Evict stage) {
  kv::Compression setting;
  setting.block_size = block_size;
  setting.sinks = 4;
  setting.window = 8;
  stage.scorer = scorer;
  setting.stages = {stage};
  return setting;
}

/// Ways to spend the budget that any scorer can feed.
std::vector<std::pair<std::string, kv::Evict>> variants() {
  const kv::Evict token{.granularity = kv::Granularity::token};
  std::vector<std::pair<std::string, kv::Evict>> result{{"block", {}}, {"token", token}};
  result.emplace_back("shared", kv::Evict{.heads = kv::HeadScope::shared, .block_score = kv::BlockScore::mean});
  for (const kv::Selection selection : {kv::Selection::quota, kv::Selection::iterative, kv::Selection::entropy_gated}) {
    result.emplace_back("selection" + std::to_string(static_cast<int>(selection)), token);
    result.back().second.selection = selection;
  }
  result.emplace_back("adaptive", token);
  result.back().second.heads = kv::HeadScope::adaptive;
  result.emplace_back("critical", token);
  result.back().second.critical.emplace();
  return result;
}

std::vector<Row> matrix() {
  std::vector<Row> rows;
  for (const kv::ScorerEntry& entry : kv::scorers()) {
    for (const auto& [name, stage] : variants()) rows.push_back({entry.name + "/" + name, with(entry.name, 16, stage)});
  }
  return rows;
}

const kv::LayerTensors& layer() {
  static const kv::LayerTensors tensors = kv::testing::random_layer(kHeads, kPositions, kHeadDim, 7, 10000, true);
  return tensors;
}

kv::LayerScores scores_of(const Row& row, std::int64_t num_positions) {
  static const kv::RowMatrix output_projection = kv::RowMatrix::Random(8, kHeads * kHeadDim);
  kv::LayerScores given(kHeads);
  for (auto& of_head : given) {
    for (std::int64_t position = 0; position < num_positions; ++position) {
      of_head.push_back(static_cast<double>(position * 37 % 101));
    }
  }
  return kv::importance(
      row.setting, row.stage(), layer(),
      {.num_positions = num_positions, .score_window = 8, .output_projection = &output_projection, .given = &given});
}

kv::LayerCache cache_of(const Row& row, std::int64_t num_positions) {
  return kv::compress_layer(row.setting, num_positions, kHeads, kHeadDim, scores_of(row, num_positions), &layer());
}

std::int64_t kept_of(const kv::HeadCache& head, std::int64_t num_positions) {
  return num_positions - std::count(head.entries->entry_of.begin(), head.entries->entry_of.begin() + num_positions, -1);
}

TEST(PolicyMatrix, KeepOneIsTheIdentity) {
  for (Row row : matrix()) {
    std::get<kv::Evict>(row.setting.stages.front()).keep = 1'000'000;
    const kv::LayerCache cache = cache_of(row, kCompressed);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      EXPECT_EQ(kept_of(cache.heads[head], kPositions), kPositions) << row.name;
      const kv::EntryTable& table = *cache.heads[head].entries;
      if (table.is_recorded) continue;
      ASSERT_EQ(table.k, layer()[head].k_post) << row.name;
      ASSERT_EQ(table.v, layer()[head].v) << row.name;
    }
  }
}

// The keep rule holds whatever chose: 180 positions in 12 blocks of 16 (the newest of 4 is protected), half kept; blocks
// may be partial only at the end, so 6 blocks are 96 positions or 84 with the newest.
TEST(PolicyMatrix, BudgetIsWhatTheRuleSays) {
  for (const Row& row : matrix()) {
    const kv::LayerCache cache = cache_of(row, kCompressed);
    std::int64_t kept = 0;
    for (const kv::HeadCache& head : cache.heads) kept += kept_of(head, kCompressed);
    if (row.stage().granularity == kv::Granularity::block) {
      EXPECT_EQ(kept, kHeads * 84) << row.name;
    } else {
      EXPECT_EQ(kept, kHeads * 90) << row.name;
    }
  }
}

// Case Q7: sinks and window stay, positions keep their names, what follows is exact.
TEST(PolicyMatrix, PositionsSurvive) {
  for (const Row& row : matrix()) {
    const kv::LayerCache cache = cache_of(row, kCompressed);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      const kv::HeadCache& of_head = cache.heads[head];
      ASSERT_EQ(of_head.num_positions, kPositions) << row.name;
      for (std::int64_t position = 0; position < kPositions; ++position) {
        const std::int32_t entry = of_head.entries->entry_of[static_cast<std::size_t>(position)];
        if (position < 4 || position >= kCompressed - 8) {
          ASSERT_GE(entry, 0) << row.name << " " << position;
        }
        if (entry >= 0 && !of_head.entries->is_recorded) {
          ASSERT_EQ(of_head.entries->k.row(entry), layer()[head].k_post.row(position)) << row.name;
        }
      }
    }
  }
}

// Case Q8: a prompt shorter than a block is one block, protected, and nothing is lost.
TEST(PolicyMatrix, ShortPromptLosesNothing) {
  for (const Row& row : matrix()) {
    for (const std::int64_t size : {1, 2, 15}) {
      for (const kv::HeadCache& head : cache_of(row, size).heads) ASSERT_EQ(kept_of(head, size), size) << row.name;
    }
  }
}

// T4: the signed output losses of all positions add up to the mean squared output error.
TEST(PolicyMatrix, LossIsAdditive) {
  AttentionReference reference({kCompressed, kPositions - 1});
  reference.add_layer(layer());
  for (const Row& row : matrix()) {
    const PositionLoss loss = measure_loss(reference, {cache_of(row, kCompressed)}, HeadReduction::mean);
    const double sum = std::accumulate(loss.output_loss_signed.begin(), loss.output_loss_signed.end(), 0.0);
    const double squared = loss.output_error_rms * loss.output_error_rms;
    EXPECT_NEAR(sum, squared, 1e-5 * squared) << row.name;  // sums of evicted positions are products in float32
    EXPECT_GT(loss.lost_attention, 0) << row.name;
  }
}

TEST(PolicyMatrix, SameChoiceEveryTime) {
  for (const Row& row : matrix()) EXPECT_EQ(scores_of(row, kCompressed), scores_of(row, kCompressed)) << row.name;
}

// The oracle knows the measured queries: no other choice of as many tokens loses less of their attention.
TEST(PolicyMatrix, NobodyLosesLessThanTheOracle) {
  AttentionReference reference({kCompressed, kPositions - 1});
  reference.add_layer(layer());
  const auto lost = [&](const std::string& scorer) {
    kv::Evict stage{.granularity = kv::Granularity::token};
    kv::Compression setting = with(scorer, 1, stage);
    return measure_loss(reference, {cache_of({scorer, setting}, kCompressed)}, HeadReduction::mean).lost_attention;
  };
  // Mass is renormalised over what is kept, which the oracle does not weigh: allow a part in a hundred.
  const double best = lost("oracle");
  for (const kv::ScorerEntry& entry : kv::scorers()) EXPECT_GE(lost(entry.name), 0.99 * best) << entry.name;
}

Model small_model() {
  Model model;
  model.name = "small";
  model.num_layers = 4;
  model.num_query_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = kHeadDim;
  model.hidden_size = 64;
  return model;
}

// The bytes of the sequence are the bytes of the pages that the machine's attention streams, head by head.
TEST(PolicyMatrix, BytesAreThePagesTheMachineReads) {
  constexpr std::int64_t kContext = 1000;
  for (const Row& row : matrix()) {
    kv::RecordedScores recorded{4, {1}, {scores_of(row, kCompressed)}, kCompressed, kHeads};
    for (const kv::CacheLayout layout : {kv::CacheLayout::per_head, kv::CacheLayout::shared}) {
      const kv::CacheTimeline timeline({small_model(), row.setting, 16, layout, 1}, recorded, kContext);
      Bytes streamed = 0;
      for (const kv::LayerAttention& attention : timeline.attention()) {
        for (const gpu::AttentionTask& task : attention.work.tasks) {
          for (const gpu::PageStream& stream : task.streams) {
            streamed += stream.bytes * static_cast<Bytes>(task.count * attention.num_layers);
          }
        }
      }
      EXPECT_EQ(streamed, kv::sequence_bytes(timeline.cache(), 16, layout).total) << row.name;
      EXPECT_LE(streamed, Bytes{4} * 2 * 2 * 63 * 16 * kHeadDim * 2) << row.name;  // 63 pages of 16 hold 1,000
    }
  }
}

// What a scorer reads and computes when a block fills is charged: nothing for one that looks at positions alone.
TEST(PolicyMatrix, ScoringIsChargedToTheMachine) {
  for (const kv::ScorerEntry& entry : kv::scorers()) {
    const Row row{entry.name, with(entry.name, 16, {})};
    kv::RecordedScores recorded{4, {1}, {scores_of(row, kCompressed)}, kCompressed, kHeads};
    const kv::CacheTimeline timeline({small_model(), row.setting, 16, kv::CacheLayout::per_head, 1}, recorded, 320);
    const gpu::CompressBlocksWork work = timeline.compression_work({.num_positions = 320, .completed_blocks = 1});
    // Keys of 16 positions of both heads in fp16, and as many values.
    const Bytes of_keys = 2 * 16 * kHeadDim * 2;
    EXPECT_EQ(work.read_bytes, (entry.needs.keys ? of_keys : 0) + (entry.needs.values ? of_keys : 0)) << entry.name;
    EXPECT_EQ(work.flops > 0, entry.needs.keys) << entry.name;
  }
}

/// What becomes of the positions that are not chosen, whoever chose.
std::vector<Row> rests() {
  std::vector<Row> rows;
  for (const kv::Rest rest : {kv::Rest::unread, kv::Rest::host, kv::Rest::values, kv::Rest::weighted, kv::Rest::votes,
                              kv::Rest::neighbours, kv::Rest::following, kv::Rest::compensated}) {
    for (const char* scorer : {"attention_sum", "knorm", "quest", "streaming"}) {
      kv::Evict stage{.granularity = kv::Granularity::token, .rest = rest, .spread = 4};
      rows.push_back({std::string(scorer) + "/rest" + std::to_string(static_cast<int>(rest)), with(scorer, 16, stage)});
    }
  }
  return rows;
}

TEST(PolicyMatrix, WhatBecomesOfTheRestChangesNothingWhereNothingIsLeft) {
  AttentionReference reference({kCompressed, kPositions - 1});
  reference.add_layer(layer());
  for (Row row : rests()) {
    for (const kv::HeadCache& head : cache_of(row, 15).heads) ASSERT_EQ(kept_of(head, 15), 15) << row.name;
    std::get<kv::Evict>(row.setting.stages.front()).keep = 1'000'000;
    const PositionLoss loss = measure_loss(reference, {cache_of(row, kCompressed)}, HeadReduction::mean);
    EXPECT_EQ(loss.output_error, 0) << row.name;
    EXPECT_EQ(loss.lost_attention, 0) << row.name;
  }
}

TEST(PolicyMatrix, LossOfTheRestIsAdditive) {
  AttentionReference reference({kCompressed, kPositions - 1});
  reference.add_layer(layer());
  for (const Row& row : rests()) {
    const PositionLoss loss = measure_loss(reference, {cache_of(row, kCompressed)}, HeadReduction::mean);
    const double sum = std::accumulate(loss.output_loss_signed.begin(), loss.output_loss_signed.end(), 0.0);
    const double squared = loss.output_error_rms * loss.output_error_rms;
    EXPECT_NEAR(sum, squared, 1e-5 * squared) << row.name;
    EXPECT_GT(squared, 0) << row.name;
    for (const kv::HeadCache& head : cache_of(row, kCompressed).heads) {
      EXPECT_EQ(head.num_positions, kPositions) << row.name;
      for (std::int64_t position = kCompressed - 8; position < kPositions; ++position) {
        EXPECT_GE(head.entries->entry_of[static_cast<std::size_t>(position)], 0) << row.name;
      }
    }
  }
}

// Memory holds what the machine reads, and of `unread` the pages that it does not: with half of the tokens of 1,000 kept and
// pages of 16 that is all of them again, give or take a page a head for K and for V. Digests are read by the kernels that
// choose pages, before attention: where the rest is in host memory, they are what is stored beside the streams.
TEST(PolicyMatrix, OnlyUnreadPagesAreStoredAndNotRead) {
  for (const Row& row : rests()) {
    kv::RecordedScores recorded{4, {1}, {scores_of(row, kCompressed)}, kCompressed, kHeads};
    const kv::CacheTimeline timeline({small_model(), row.setting, 16, kv::CacheLayout::per_head, 1}, recorded, 1000);
    Bytes streamed = 0;
    for (const kv::LayerAttention& attention : timeline.attention()) {
      for (const gpu::AttentionTask& task : attention.work.tasks) {
        for (const gpu::PageStream& stream : task.streams) {
          streamed += stream.bytes * static_cast<Bytes>(task.count * attention.num_layers);
        }
      }
    }
    const Bytes stored = kv::sequence_bytes(timeline.cache(), 16, kv::CacheLayout::per_head).total;
    if (row.stage().rest == kv::Rest::unread) {
      constexpr Bytes kAllPages = Bytes{4} * 2 * 2 * 63 * 16 * kHeadDim * 2;  // 63 pages of 16 hold 1,000
      EXPECT_GE(stored, kAllPages) << row.name;
      EXPECT_LT(streamed, stored * 6 / 10) << row.name;
    } else {
      const bool has_digests = row.stage().rest == kv::Rest::host && row.stage().scorer == "quest";
      constexpr Bytes kDigests = Bytes{4} * 2 * 63 * 2 * kHeadDim * 2;  // least and most of each channel of a page
      EXPECT_EQ(streamed + (has_digests ? kDigests : 0), stored) << row.name;
    }
  }
}

}  // namespace
}  // namespace kvtide::loss
