#include "gpu/score_entries.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// The header's example.
TEST(ScoreEntries, AttentionScoresCostAProductAndASoftmax) {
  const StreamWork work = score_work({.num_entries = 4096, .kv_heads = 8, .num_queries = 256});
  EXPECT_EQ(work.read_bytes, 8'388'608u + 524'288u);
  EXPECT_EQ(work.write_bytes, 131'072u);
  EXPECT_EQ(work.tensor_flops, 2.0 * 256 * 128 * 4096 * 8);
  EXPECT_EQ(work.flops, 8.0 * 256 * 4096 * 8);
  EXPECT_EQ(work.num_launches, 2);
  EXPECT_EQ(work.num_blocks, 256);
}

// A multiply-add for each channel, no queries read.
TEST(ScoreEntries, KeyNormsReadKeysOnly) {
  const StreamWork work = score_work({.num_entries = 100, .head_dim = 64});
  EXPECT_EQ(work.read_bytes, 12'800u);
  EXPECT_EQ(work.flops, 12'800);
  EXPECT_EQ(work.tensor_flops, 0);
  EXPECT_EQ(work.num_launches, 1);
}

TEST(ScoreEntries, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)score_work({.num_entries = -1}), InputError);
  EXPECT_THROW((void)score_work({.num_entries = 1, .kv_heads = 0}), InputError);
  EXPECT_THROW((void)score_work({.num_entries = 1, .num_queries = -1}), InputError);
  EXPECT_THROW((void)score_work({.num_entries = 1, .key_bits = 0}), InputError);
}

}  // namespace
}  // namespace kvtide::gpu
