#include "kv/cache_layout.h"

#include <gtest/gtest.h>

namespace kvtide::kv {
namespace {

StoredForm fp16(std::int32_t head_dim) {
  return {StoredForm::Kind::fp16, 16, head_dim};
}

HeadCache head_of(std::vector<std::pair<std::int64_t, std::int64_t>> runs, std::int32_t head_dim) {
  HeadCache head;
  for (const auto& [begin, end] : runs)
    head.segments.push_back({begin, end, end - begin, fp16(head_dim), fp16(head_dim), 0, 0});
  return head;
}

// 17 entries, page_size 16 -> 2 pages; 2 * 16 * 128 * 2 B = 8,192 B for K.
TEST(CacheLayout, HalfEmptyPageCostsAWholePage) {
  const HeadPools pools = packed_pools(head_of({{0, 17}}, 128), 16);
  EXPECT_EQ(pools.k[0].num_pages, 2);
  EXPECT_EQ(pools.k[0].payload_bytes, 8192u);
  EXPECT_EQ(packed_pools(head_of({{0, 16}}, 128), 16).k[0].payload_bytes, 4096u);
}

// The header's example: two heads keep different halves of 32 positions.
TEST(CacheLayout, SharedPageStaysUntilEveryHeadDroppedIt) {
  LayerCache layer;
  layer.heads = {head_of({{0, 16}}, 8), head_of({{16, 32}}, 8)};
  EXPECT_EQ(layer_bytes(layer_pools(layer, 16, CacheLayout::per_head)).total, 2u * 2 * 16 * 8 * 2);
  EXPECT_EQ(layer_bytes(layer_pools(layer, 16, CacheLayout::shared)).total, 2u * 2 * 32 * 8 * 2);
  layer.heads[1] = head_of({{0, 16}}, 8);
  EXPECT_EQ(layer_bytes(layer_pools(layer, 16, CacheLayout::shared)).total, 2u * 2 * 16 * 8 * 2);
}

TEST(CacheLayout, SharedPagesAreNotCompacted) {
  // Every second position of 32 kept: packed 1 page, shared still 2.
  HeadCache head;
  for (std::int64_t position = 0; position < 32; position += 2) {
    head.segments.push_back({position, position + 1, 1, fp16(8), fp16(8), 0, 0});
  }
  LayerCache layer;
  layer.heads = {head};
  EXPECT_EQ(layer_bytes(layer_pools(layer, 16, CacheLayout::per_head)).num_pages, 2);  // one of K, one of V
  EXPECT_EQ(layer_bytes(layer_pools(layer, 16, CacheLayout::shared)).num_pages, 4);
}

// Two runs of one page in int4, one with its scales in the rows: 4 B of codes for 8 channels, and 4 + 4 B. Rows of either kind need
// a page of their own: 16 * 4 + 16 * 8 B of K, as much of V. So it is per head, too: 8 entries of each.
TEST(CacheLayout, RowsOfOtherBytesHaveTheirOwnSharedPage) {
  const StoredForm bare{StoredForm::Kind::coded, 4, 8, "int4", 4};
  const StoredForm with_scales{StoredForm::Kind::coded, 4, 8, "int4", 8};
  HeadCache head;
  head.segments = {{0, 8, 8, bare, bare, 0, 0}, {8, 16, 8, with_scales, with_scales, 0, 0}};
  const LayerCache layer{.heads = {head}};
  for (const CacheLayout layout : {CacheLayout::shared, CacheLayout::per_head}) {
    EXPECT_EQ(layer_bytes(layer_pools(layer, 16, layout)).total, 2 * (16 * 4 + 16 * 8));
  }
}

// Field case C13: 2 x 80 layers x 32,768 x 8 heads x 128 x 2 B = 10,737,418,240 B: one layer's head is exact in 64
// bits.
TEST(CacheLayout, LargeGeometriesAreExact) {
  const Bytes one_head = layer_bytes({packed_pools(head_of({{0, 32768}}, 128), 16)}).total;
  EXPECT_EQ(one_head * 80 * 8, 10737418240ULL);
}

}  // namespace
}  // namespace kvtide::kv
