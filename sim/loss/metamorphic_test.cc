// Two settings whose losses must stand in a known relation, whatever the numbers are.

#include <gtest/gtest.h>

#include <algorithm>

#include "kv/cache_timeline.h"
#include "kv/testing/random_layer.h"
#include "loss/hand_made_heads.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPositions = 256;
constexpr std::int64_t kHeadDim = 16;

std::vector<std::pair<std::string, std::vector<kv::Stage>>> stacks() {
  const kv::Quantize int4{.group = 16};
  return {{"evict", {kv::Evict{}}},
          {"evict tokens", {kv::Evict{.granularity = kv::Granularity::token}}},
          {"pool", {kv::Pool{}}},
          {"low rank", {kv::LowRank{.rank = 8}}},
          {"int4", {int4}},
          {"evict, int4", {kv::Evict{}, int4}},
          {"pool, int4", {kv::Pool{}, int4}}};
}

kv::LayerScores scores(std::int64_t num_positions) {
  kv::LayerScores of_heads(1);
  for (std::int64_t position = 0; position < num_positions; ++position) {
    of_heads[0].push_back(static_cast<double>(position * 73 % 257));
  }
  return of_heads;
}

kv::HeadTensors head() {
  return kv::testing::random_layer(1, kPositions, kHeadDim, 3, 10000, true).front();
}

kv::HeadCache compressed(const kv::Compression& setting, const kv::HeadTensors& tensors, const kv::LayerScores& given) {
  const kv::LayerTensors layer{tensors};
  return kv::compress_layer(setting, tensors.num_positions(), 1, kHeadDim, given, &layer).heads.front();
}

HeadLoss loss_of(const kv::Compression& setting, const kv::HeadTensors& tensors, const kv::LayerScores& given) {
  return measure_head(make_head_reference(tensors, {0, 1 << 20}), compressed(setting, tensors, given));
}

// What a window protects keeps its entry bit by bit and takes no part in the output error, and no larger window changes that. Where
// dropped or pooled keys leave no more mass than there was (a mean's exponential is at most the mean of exponentials) it loses no
// attention either.
TEST(Metamorphic, ALargerWindowNeverRaisesTheLossOfWhatIsProtected) {
  const kv::HeadTensors tensors = head();
  for (const auto& [name, stages] : stacks()) {
    const bool has_errors_in_keys = name.find("int4") != std::string::npos || name == "low rank";
    std::int64_t last_protected = -1;
    for (const std::int64_t window : {0, 1, 16, 17, 40, 64, 200, 256}) {
      kv::Compression setting;
      setting.block_size = 16;
      setting.sinks = 0;
      setting.window = window;
      setting.stages = stages;
      const kv::HeadCache cache = compressed(setting, tensors, scores(kPositions));
      const HeadLoss loss = measure_head(make_head_reference(tensors, {0, 1 << 20}), cache);
      // Whole blocks: 16 positions where one of them is protected.
      const std::int64_t num_protected = (window + 15) / 16 * 16;
      EXPECT_GE(num_protected, last_protected);
      last_protected = num_protected;
      for (std::int64_t position = kPositions - num_protected; position < kPositions; ++position) {
        const auto j = static_cast<std::size_t>(position);
        ASSERT_EQ(loss.output_loss[j], 0) << name << " window " << window << " position " << position;
        ASSERT_EQ(loss.bits_lost[j], 0) << name << " window " << window << " position " << position;
        if (!has_errors_in_keys) {
          ASSERT_NEAR(loss.lost_mass[j], 0, 1e-12) << name << " window " << window << " position " << position;
        }
      }
      if (window == kPositions) {
        EXPECT_EQ(loss.output_error, 0) << name;
      }
    }
  }
}

/// The same content behind `shift` further positions that no query looks at: their keys score far below any other.
kv::HeadTensors behind(const kv::HeadTensors& tensors, std::int64_t shift) {
  kv::HeadTensors moved = tensors;
  const auto lengthen = [shift](kv::RowMatrix& rows) {
    kv::RowMatrix longer = kv::RowMatrix::Zero(rows.rows() + shift, rows.cols());
    longer.bottomRows(rows.rows()) = rows;
    rows = std::move(longer);
  };
  lengthen(moved.k_post);
  lengthen(moved.k_pre);
  lengthen(moved.v);
  // Channel 0 is every query's constant.
  moved.k_post.col(0).head(shift).setConstant(-4000);
  for (std::int64_t& position : moved.q_positions) position += shift;
  return moved;
}

// Blocks are counted from the content: (p + shift) + (offset - shift) is p + offset, modulo the block. So every stage decides and
// stores the content's blocks as before, and each of its positions loses what it lost.
TEST(Metamorphic, MovingGridAndContentTogetherChangesNothing) {
  kv::HeadTensors tensors = empty_head(kPositions, 6, kHeadDim);
  RandomStream random(8, "metamorphic");
  for (kv::RowMatrix* rows : {&tensors.k_post, &tensors.v, &tensors.q_post}) fill_normal(*rows, random);
  tensors.k_post.col(0).setZero();
  tensors.q_post.col(0).setConstant(4);
  tensors.k_pre = tensors.k_post;
  for (const auto& [name, stages] : stacks()) {
    for (const std::int64_t offset : {0, 5}) {
      for (const std::int64_t shift : {1, 7, 16, 21, 32}) {
        kv::Compression setting;
        setting.block_size = 16;
        setting.sinks = 0;
        setting.window = 20;
        setting.stages = stages;
        // What scores at least this stays, so that the prefix' blocks take nobody's place.
        for (kv::Stage& stage : setting.stages) {
          if (auto* evict = std::get_if<kv::Evict>(&stage))
            evict->threshold = evict->granularity == kv::Granularity::block ? 2000 : 128;
        }
        setting.grid_offset = offset;
        kv::Compression moved = setting;
        moved.grid_offset = ((offset - shift) % 16 + 16) % 16;
        kv::LayerScores given = scores(kPositions);
        const HeadLoss here = loss_of(setting, tensors, given);
        given[0].insert(given[0].begin(), static_cast<std::size_t>(shift), 0.0);
        const HeadLoss there = loss_of(moved, behind(tensors, shift), given);
        // The block that the prefix and the content share is another one than before: it is left out.
        const std::int64_t first = offset == 0 ? 0 : 16 - offset;
        for (std::int64_t position = first; position < kPositions; ++position) {
          const auto j = static_cast<std::size_t>(position);
          const auto k = static_cast<std::size_t>(position + shift);
          if (offset == 0) {
            ASSERT_NEAR(there.lost_mass[k], here.lost_mass[j], 1e-9) << name << " by " << shift << " at " << position;
            ASSERT_NEAR(there.output_loss[k], here.output_loss[j], 1e-6)
                << name << " by " << shift << " at " << position;
          }
          ASSERT_EQ(there.bits_lost[k] > 0, here.bits_lost[j] > 0) << name << " by " << shift << " at " << position;
        }
      }
    }
  }
}

TEST(Metamorphic, WhatStoresEverythingLosesNothing) {
  const kv::HeadTensors tensors = head();
  const std::vector<std::vector<kv::Stage>> identities{{},
                                                       {kv::Evict{.keep = 1'000'000}},
                                                       {kv::Pool{.width = 1}},
                                                       {kv::Quantize{.k_format = "fp16", .v_format = "fp16"}},
                                                       {kv::Evict{.keep = 1'000'000}, kv::Pool{.width = 1}}};
  for (std::size_t index = 0; index < identities.size(); ++index) {
    kv::Compression setting;
    setting.block_size = 16;
    setting.stages = identities[index];
    const HeadLoss loss = loss_of(setting, tensors, scores(kPositions));
    EXPECT_EQ(loss.output_error, 0) << index;
    EXPECT_EQ(*std::ranges::max_element(loss.lost_mass), 0) << index;
    EXPECT_EQ(*std::ranges::max_element(loss.bits_lost), 0) << index;
  }
}

// Integers of more bits: the mean distortion falls, and so do the bits lost and the output error, here by a factor of about 4 and
// more a bit.
TEST(Metamorphic, MoreBitsNeverLoseMore) {
  const kv::HeadTensors tensors = head();
  double last_error = 1e30;
  double last_bits = 1e30;
  for (const std::string format : {"int2", "int3", "int4", "int8"}) {
    kv::Compression setting;
    setting.block_size = 32;
    setting.stages = {kv::Quantize{.k_format = format, .v_format = format, .group = 16}};
    const HeadLoss loss = loss_of(setting, tensors, {});
    double bits = 0;
    for (const double lost : loss.bits_lost) bits += lost;
    EXPECT_LT(loss.output_error_squared, last_error) << format;
    EXPECT_LT(bits, last_bits) << format;
    last_error = loss.output_error_squared;
    last_bits = bits;
  }
}

/// KV bytes that one decode step of the batch streams.
Bytes streamed_bytes(const std::vector<kv::Stage>& stages, std::int64_t batch) {
  Model model;
  model.name = "small";
  model.num_layers = 2;
  model.num_query_heads = model.num_kv_heads = 1;
  model.head_dim = kHeadDim;
  model.hidden_size = 64;
  kv::Compression setting;
  setting.block_size = 16;
  setting.stages = stages;
  const kv::RecordedScores recorded{2, {0}, {scores(kPositions)}, kPositions, 1};
  const kv::CacheTimeline timeline({model, setting, 16, kv::CacheLayout::per_head, batch}, recorded, 1000);
  Bytes bytes = 0;
  for (const kv::LayerAttention& attention : timeline.attention()) {
    for (const gpu::AttentionTask& task : attention.work.tasks) {
      for (const gpu::PageStream& stream : task.streams) {
        bytes += stream.bytes * static_cast<Bytes>(task.count * attention.num_layers);
      }
    }
  }
  return bytes;
}

TEST(Metamorphic, DoublingTheBatchDoublesTheKvBytes) {
  for (const auto& [name, stages] : stacks()) {
    const Bytes one = streamed_bytes(stages, 1);
    EXPECT_GT(one, 0u) << name;
    for (const std::int64_t batch : {2, 4, 8}) {
      EXPECT_EQ(streamed_bytes(stages, batch), one * static_cast<Bytes>(batch)) << name << " " << batch;
    }
  }
}

}  // namespace
}  // namespace kvtide::loss
