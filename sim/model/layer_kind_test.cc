#include "model/layer_kind.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace kvtide {
namespace {

constexpr std::int64_t kMax = INT64_MAX;

/// Field case C12: 10 full layers and 50 with a window of 1,024; 4,096 B a layer and token.
std::vector<LayerKind> mostly_sliding() {
  return {{.kind = AttentionKind::full_attention, .count = 10, .k_bytes = 2048, .v_bytes = 2048},
          {.kind = AttentionKind::sliding_attention, .count = 50, .k_bytes = 2048, .v_bytes = 2048, .window = 1024}};
}

// 60 * 4,096 * 128 = 31,457,280 = 30 MiB; 10 * 4,096 * 65,536 + 50 * 4,096 * 1,024 = 2,894,069,760 = 2.70 GiB.
TEST(LayerKind, WindowLongerThanTheRequestHoldsTheRequest) {
  EXPECT_EQ(cache_bytes(mostly_sliding(), 128), 30 * kMiB);
  EXPECT_EQ(cache_bytes(mostly_sliding(), 65536), 2894069760u);
}

// The window is full at 1,024: one token more adds the 10 full layers' 40,960 B alone.
TEST(LayerKind, WindowStopsGrowingAtItsLength) {
  const auto layers = mostly_sliding();
  EXPECT_EQ(cache_bytes(layers, 1024) - cache_bytes(layers, 1023), 60u * 4096);
  EXPECT_EQ(cache_bytes(layers, 1025) - cache_bytes(layers, 1024), 10u * 4096);
  EXPECT_EQ(bytes_per_token(layers), 60u * 4096);
  EXPECT_EQ(bytes_per_token_growing(layers), 10u * 4096);
  EXPECT_EQ(window_cap_bytes(layers), 50u * 4096 * 1024);
}

// One layer, entries of 1,024 B, one per 4 positions, and 128 raw ones: 3 tokens -> 3 raw; 4 -> 4 raw + 1 entry;
// 1,000 -> 128 raw + 250 entries. A token grows it by 1,024 / 4.
TEST(LayerKind, CompressedLayerKeepsWholeEntriesAndAWindow) {
  const std::vector<LayerKind> layers{
      {.kind = AttentionKind::compressed_attention, .count = 1, .k_bytes = 1024, .window = 128, .compress_ratio = 4}};
  EXPECT_EQ(cache_bytes(layers, 3), 3u * 1024);
  EXPECT_EQ(cache_bytes(layers, 4), 5u * 1024);
  EXPECT_EQ(cache_bytes(layers, 1000), 378u * 1024);
  EXPECT_EQ(bytes_per_token_growing(layers), 256u);
}

// Field case C1: ceil(min(4,096 - 1 + 8,192, 16,384) / 16) + 1 = 769; 137,407 pages / 769 = 178.68 sequences.
// Without a window: 16,384 / 16 = 1,024 -> 134.19.
TEST(LayerKind, PagesHeldCountTheWindowAndOneStep) {
  EXPECT_EQ(most_pages_held(4096, 8192, 16384, 16), 769);
  EXPECT_NEAR(137407.0 / 769, 178.68, 0.005);
  EXPECT_EQ(most_pages_held(0, 8192, 16384, 16), 1024);
  EXPECT_EQ(most_pages_held(4096, 8192, 100, 16), 8);  // a request shorter than the window: ceil(100 / 16) + 1
}

TEST(LayerKind, SumsBeyond64BitsAreRefused) {
  const std::vector<LayerKind> layers{{.count = kMax, .k_bytes = 4}};
  EXPECT_THROW((void)bytes_per_token(layers), InputError);
  EXPECT_THROW((void)cache_bytes({{.count = 1, .k_bytes = 4}}, kMax), InputError);
}

TEST(LayerKind, EveryKindHasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (const AttentionKind kind : attention_kinds()) words.insert(to_string(kind));
  EXPECT_EQ(words.size(), 7u);
}

TEST(LayerKind, OnlyWindowsAndStatesAreBounded) {
  EXPECT_FALSE(mostly_sliding()[0].is_bounded());
  EXPECT_TRUE(mostly_sliding()[1].is_bounded());
  EXPECT_TRUE(LayerKind{.kind = AttentionKind::linear_attention}.is_bounded());
}

}  // namespace
}  // namespace kvtide
