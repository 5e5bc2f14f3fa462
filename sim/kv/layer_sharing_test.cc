#include "kv/layer_sharing.h"

#include <gtest/gtest.h>

#include "kv/cache_timeline.h"

namespace kvtide::kv {
namespace {

constexpr Bytes kTokenAndLayer = 2 * 2 * 16 * 2;  // K and V, two heads of 16 channels at 16 bits: 128 B

Model four_layers() {
  Model model;
  model.num_layers = 4;
  model.num_query_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 16;
  return model;
}

const LayerSharing kPairs{.group = 2};
const LayerSharing kUpperHalf{.group = 0, .from = 500'000, .window = 32};

Bytes stored(const LayerSharing& sharing, std::int64_t num_positions) {
  return sequence_bytes(serve(four_layers(), {}, {}, num_positions, sharing), 16, CacheLayout::per_head).total;
}

Bytes read(const LayerSharing& sharing, std::int64_t num_positions, const Model& model = four_layers()) {
  const CacheTimeline cache({.model = model, .setting = {}, .sharing = sharing}, {}, num_positions);
  Bytes bytes = 0;
  for (const LayerAttention& layer : cache.attention()) {
    for (const gpu::AttentionTask& task : layer.work.tasks) {
      for (const gpu::PageStream& stream : task.streams)
        bytes += stream.bytes * static_cast<Bytes>(task.count * layer.num_layers);
    }
  }
  return bytes;
}

TEST(LayerSharing, OwnersOfPairsAndOfAnUpperHalf) {
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(LayerSharing{}.owners(3), (Layers{0, 1, 2}));
  EXPECT_EQ(kPairs.owners(5), (Layers{0, 0, 2, 2, 4}));  // an odd one out owns its cache
  EXPECT_EQ(kUpperHalf.owners(5), (Layers{0, 1, 2, 2, 2}));
  EXPECT_TRUE(is_shared(kPairs.owners(5), 2));
  EXPECT_FALSE(is_shared(kPairs.owners(5), 4));
}

// Pairs are counted over layers that store alike, from the depth at which sharing begins (layer 3 of 7).
TEST(LayerSharing, WindowsBetweenTwoLayersAreInNoGroup) {
  using Layers = std::vector<std::int64_t>;
  const Layers shapes{kNeverShares, 0, kNeverShares, 0, 1, 0, 1};
  EXPECT_EQ(kPairs.owners(shapes), (Layers{0, 1, 2, 1, 4, 5, 4}));
  EXPECT_EQ(kUpperHalf.owners(shapes), (Layers{0, 1, 2, 3, 4, 3, 4}));
}

TEST(LayerSharing, PairsStoreHalfAndEveryLayerReads) {
  EXPECT_EQ(stored({}, 64), 4 * 64 * kTokenAndLayer);
  EXPECT_EQ(stored(kPairs, 64), 2 * 64 * kTokenAndLayer);
  EXPECT_EQ(read(kPairs, 64), read({}, 64));
  EXPECT_EQ(read({}, 64), 4 * 64 * kTokenAndLayer);
}

// Two layers keep a window of 32, the third stores 64 positions, which it and the fourth read.
TEST(LayerSharing, AnUpperHalfStoresOneLayerAndTheLowerHalfWindows) {
  EXPECT_EQ(stored(kUpperHalf, 64), (2 * 32 + 64) * kTokenAndLayer);
  EXPECT_EQ(read(kUpperHalf, 64), (2 * 32 + 2 * 64) * kTokenAndLayer);
}

// 40 positions, 5 %: 2 retained. A layer and head of its own: 40 * 4 + 2 * (64 + 4) = 296 B. Layers 2 and 3 merge; all
// stored: layers 0, 1 and one direction in pages of 16 (48 entries), and 2 layers * 2 heads * 296 B.
TEST(LayerSharing, MergedLayersAddLengthsAndRetainedPositions) {
  const LayerSharing merged{.group = 2, .from = 500'000, .merges = true, .retained = 50'000};
  EXPECT_EQ(merged_bytes(merged, 40, 16, false), 296U);
  EXPECT_EQ(stored(merged, 40), 3 * 48 * kTokenAndLayer + 2 * 2 * 296);
  EXPECT_EQ(read(merged, 40), 4 * 48 * kTokenAndLayer + 2 * 2 * 296);
  EXPECT_EQ(merged_bytes(kPairs, 40, 16, false), 0U);
}

// A latent vector of 576 channels is K and V in one: 1,000 lengths of 2 B and 50 retained vectors of 1,152 B with their
// place, 59,800 B a layer. Of four layers, pages of 16 tokens (1,008), three directions and two merged layers are stored.
TEST(LayerSharing, MergedLatentVectorsAreOneTensor) {
  const LayerSharing merged{.group = 2, .from = 500'000, .merges = true, .retained = 50'000};
  EXPECT_EQ(merged_bytes(merged, 1000, 576, true), 59'800U);
  Model model = four_layers();
  model.num_kv_heads = 1;
  model.head_dim = 576;
  model.layers = {{.count = 4, .k_bytes = 1152, .v_bytes = 0, .num_kv_heads = 1, .is_latent = true}};
  model.kind_of_layer = {0, 0, 0, 0};
  const ServedCache cache = serve(model, {}, {}, 1000, merged);
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::per_head).total, 3U * 1008U * 1152U + 2U * 59'800U);
  CacheTimeline appended({.model = model, .setting = {}, .sharing = merged}, {}, 999);
  appended.append();
  EXPECT_EQ(sequence_bytes(appended.held(), 16, CacheLayout::per_head).total, 3U * 1008U * 1152U + 2U * 59'800U);
}

// Shared layers have the owner's choices: evicting half of the positions halves what is stored and what is read.
TEST(LayerSharing, EvictionComesOnTop) {
  Compression setting;
  setting.block_size = 16;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {Evict{.scorer = "first"}};
  RecordedScores none;
  none.num_model_layers = none.num_kv_heads = 1;
  none.layers = {0};
  const ServedCache cache = serve(four_layers(), setting, none, 64, kPairs);
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::per_head).total, 2 * 32 * kTokenAndLayer);
}

// Six layers, a window of 32 and a whole one in turn; 64 positions. Windows: 3 * 32 = 96 positions, stored and read whatever is
// shared. Whole ones: 1 and 3 are a pair, 5 is left: 2 * 64 = 128 stored, 3 * 64 = 192 read. An upper half: layers
// 3 and 5 share the cache of 3, and layer 1 keeps a window of 32 as well: 96 + 32 + 64 stored, 96 + 32 + 128 read.
TEST(LayerSharing, WholeLayersBetweenWindowsAreStoredByTheFirstOfTheirGroup) {
  Model model = four_layers();
  model.num_layers = 6;
  const LayerKind whole{.count = 3, .k_bytes = 64, .v_bytes = 64, .num_kv_heads = 2};
  LayerKind window = whole;
  window.kind = AttentionKind::sliding_attention;
  window.window = 32;
  model.layers = {window, whole};
  model.kind_of_layer = {0, 1, 0, 1, 0, 1};
  const auto stored_of = [&model](const LayerSharing& sharing) {
    return sequence_bytes(serve(model, {}, {}, 64, sharing), 16, CacheLayout::per_head).total;
  };
  EXPECT_EQ(stored_of({}), (96 + 192) * kTokenAndLayer);
  EXPECT_EQ(stored_of(kPairs), (96 + 128) * kTokenAndLayer);
  EXPECT_EQ(read(kPairs, 64, model), (96 + 192) * kTokenAndLayer);
  EXPECT_EQ(stored_of(kUpperHalf), (96 + 32 + 64) * kTokenAndLayer);
  EXPECT_EQ(read(kUpperHalf, 64, model), (96 + 32 + 128) * kTokenAndLayer);
}

// A model whose last two of four layers have no cache: one reads the window of 32 of layer 0, one the whole of layer 1.
// Stored: 32 and 64 positions; read: both twice.
TEST(LayerSharing, LayersThatShareByTheirModelReadTheLastOwnerThatSeesAsFar) {
  Model model = four_layers();
  const LayerKind whole{.count = 1, .k_bytes = 64, .v_bytes = 64, .num_kv_heads = 2};
  LayerKind window = whole;
  window.kind = AttentionKind::sliding_attention;
  window.window = 32;
  model.layers = {window,
                  whole,
                  {.kind = AttentionKind::shared_attention, .count = 1, .window = 32},
                  {.kind = AttentionKind::shared_attention, .count = 1}};
  model.kind_of_layer = {0, 1, 2, 3};
  const Bytes once = (32 + 64) * kTokenAndLayer;
  EXPECT_EQ(sequence_bytes(serve(model, {}, {}, 64), 16, CacheLayout::per_head).total, once);
  EXPECT_EQ(read({}, 64, model), 2 * once);
}

}  // namespace
}  // namespace kvtide::kv
