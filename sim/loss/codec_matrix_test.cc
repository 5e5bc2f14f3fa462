// One policy, two observers, for the ways to encode: what must hold for every codec, whoever wrote it. A new codec is a row
// of its own through the table (policy_matrix_test.cc does the same for scorers).

#include <gtest/gtest.h>

#include <numeric>

#include "kv/cache_timeline.h"
#include "kv/compression/codec.h"
#include "kv/testing/random_layer.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPositions = 200;  ///< recorded, queries at each
constexpr std::int64_t kCompressed = 180;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kBlock = 32;

/// Blocks of 32: the first holds the sinks, the last two the window; four are encoded.
kv::Compression encoded(const kv::Codec& codec) {
  kv::Quantize stage;
  stage.k_format = stage.v_format = std::string(codec.name);
  stage.k_rope = codec.k_rope;
  stage.v_axis = kv::GroupAxis::token;
  kv::Compression setting;
  setting.block_size = kBlock;
  setting.sinks = 4;
  setting.window = 8;
  setting.stages = {stage};
  return setting;
}

const kv::LayerTensors& layer() {
  static const kv::LayerTensors tensors = kv::testing::random_layer(kHeads, kPositions, kHeadDim, 7, 10000, true);
  return tensors;
}

kv::LayerCache cache_of(const kv::Codec& codec, std::int64_t num_positions) {
  return kv::compress_layer(encoded(codec), num_positions, kHeads, kHeadDim, {}, &layer());
}

PositionLoss loss_of(const kv::LayerCache& cache) {
  static const AttentionReference reference = [] {
    AttentionReference made({kCompressed, kPositions - 1});
    made.add_layer(layer());
    return made;
  }();
  return measure_loss(reference, {cache}, HeadReduction::mean);
}

TEST(CodecMatrix, SixteenBitsAreTheIdentity) {
  const PositionLoss loss = loss_of(cache_of(kv::find_codec("fp16"), kCompressed));
  EXPECT_EQ(loss.output_error, 0);
  EXPECT_EQ(loss.lost_attention, 0);
}

// Case Q8: a prompt that is no whole block stays in 16 bits, and nothing is lost.
TEST(CodecMatrix, ShortPromptLosesNothing) {
  for (const kv::Codec& codec : kv::codecs()) {
    for (const std::int64_t size : {1, 2, 31}) {
      EXPECT_EQ(loss_of(cache_of(codec, size)).output_error, 0) << codec.name << " " << size;
    }
  }
}

// Case Q7: every position is there; sinks, window and what follows are as recorded, the others nearly so.
TEST(CodecMatrix, PositionsSurvive) {
  for (const kv::Codec& codec : kv::codecs()) {
    const kv::LayerCache cache = cache_of(codec, kCompressed);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      ASSERT_EQ(cache.heads[head].num_positions, kPositions) << codec.name;
      const kv::EntryTable& table = *cache.heads[head].entries;
      for (std::int64_t position = 0; position < kPositions; ++position) {
        const std::int32_t entry = table.entry_of[static_cast<std::size_t>(position)];
        ASSERT_GE(entry, 0) << codec.name << " " << position;
        if (position < 4 || position >= kCompressed - 8) {
          ASSERT_EQ(table.k.row(entry), layer()[head].k_post.row(position)) << codec.name << " " << position;
          ASSERT_EQ(table.v.row(entry), layer()[head].v.row(position)) << codec.name << " " << position;
        }
      }
    }
  }
}

// T4: the signed output losses of all positions add up to the mean squared output error.
TEST(CodecMatrix, LossIsAdditive) {
  for (const kv::Codec& codec : kv::codecs()) {
    const PositionLoss loss = loss_of(cache_of(codec, kCompressed));
    const double sum = std::accumulate(loss.output_loss_signed.begin(), loss.output_loss_signed.end(), 0.0);
    const double squared = loss.output_error_rms * loss.output_error_rms;
    EXPECT_NEAR(sum, squared, 1e-5 * squared) << codec.name;
    EXPECT_EQ(squared > 0, !codec.is_exact) << codec.name;
  }
}

Model small_model() {
  Model model;
  model.name = "small";
  model.num_layers = 4;
  model.num_query_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = kHeadDim;
  model.hidden_size = 256;
  return model;
}

// The bytes of the sequence are the bytes of the pages that the machine's attention streams, scales and tables included, and
// fewer than 16 bits an element; what is encoded costs the machine work to read.
TEST(CodecMatrix, BytesAreThePagesTheMachineReads) {
  constexpr std::int64_t kContext = 4096;
  constexpr Bytes kFull = Bytes{4} * 2 * 2 * kContext * kHeadDim * 2;
  for (const kv::Codec& codec : kv::codecs()) {
    for (const kv::CacheLayout layout : {kv::CacheLayout::per_head, kv::CacheLayout::shared}) {
      const kv::CacheTimeline timeline({small_model(), encoded(codec), 16, layout, 1}, {}, kContext);
      Bytes streamed = 0;
      double dequantized = 0;
      for (const kv::LayerAttention& attention : timeline.attention()) {
        for (const gpu::AttentionTask& task : attention.work.tasks) {
          dequantized += task.dequantized_elements;
          for (const gpu::PageStream& stream : task.streams) {
            streamed += stream.bytes * static_cast<Bytes>(task.count * attention.num_layers);
          }
        }
      }
      EXPECT_EQ(streamed, kv::sequence_bytes(timeline.cache(), 16, layout).total) << codec.name;
      EXPECT_EQ(streamed < kFull, codec.bits < 16) << codec.name;
      EXPECT_EQ(dequantized > 0, codec.bits < 16) << codec.name;
      const gpu::CompressBlocksWork work =
          timeline.compression_work({.num_positions = kContext, .completed_blocks = 1});
      EXPECT_EQ(work.num_blocks > 0, codec.bits < 16) << codec.name;
    }
  }
}

}  // namespace
}  // namespace kvtide::loss
