#include "loss/prefix_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

struct UniformScan {
  explicit UniformScan(std::int64_t positions) : head(uniform_head(positions, 4)), reference({0, positions}) {
    reference.add_layer({head});
  }
  /// Every other block of `block_size` evicted, the grid moved by the shift.
  [[nodiscard]] CompressAtShift alternate(std::int64_t block_size) const {
    return [this, block_size](std::int64_t, std::int64_t shift) {
      return kv::LayerCache{{evict(head, [=](std::int64_t j) { return (j + shift) / block_size % 2 == 0; })}};
    };
  }
  kv::HeadTensors head;
  AttentionReference reference;
};

// T11: with every other block of B evicted a shift of d <= B flips d of every B positions: PS = d / B, then falls back
// to 0 at 2B; any flipped position flips wholly.
TEST(PrefixScan, AlternateBlocksGiveATriangleOfTwiceTheBlockSize) {
  const UniformScan uniform(64 * 8);
  PrefixScanSettings settings;
  settings.max_shift = 128;
  settings.with_output_error = false;
  const PrefixScan scan = scan_prefix(uniform.reference, uniform.alternate(32), settings);
  ASSERT_EQ(scan.shift.size(), 129U);
  for (std::size_t shift = 0; shift <= 128; ++shift) {
    const std::size_t phase = shift % 64;
    const double expected = static_cast<double>(phase <= 32 ? phase : 64 - phase) / 32;
    EXPECT_NEAR(scan.sensitivity[shift], expected, 1e-12) << shift;
    EXPECT_EQ(scan.worst_sensitivity[shift], phase == 0 ? 0.0 : 1.0) << shift;
  }
  EXPECT_TRUE(std::isnan(scan.output_error[0]));
}

TEST(PrefixScan, TwoTokensFlipTheirShareOfTheBlock) {
  for (const auto& [block_size, expected] : {std::pair<std::int64_t, double>{128, 0.015625}, {64, 0.03125}}) {
    const UniformScan uniform(1024);
    PrefixScanSettings settings;
    settings.max_shift = 2;
    const PrefixScan scan = scan_prefix(uniform.reference, uniform.alternate(block_size), settings);
    EXPECT_NEAR(scan.sensitivity[2], expected, 1e-12);  // 2 / B
  }
}

TEST(PrefixScan, RepeatedResiduesEqualComputedOnes) {
  const UniformScan uniform(256);
  PrefixScanSettings settings;
  settings.max_shift = 70;
  settings.step = 3;
  const PrefixScan computed = scan_prefix(uniform.reference, uniform.alternate(16), settings);
  settings.repeats_after = 32;
  const PrefixScan repeated = scan_prefix(uniform.reference, uniform.alternate(16), settings);
  EXPECT_EQ(computed.lost_mass, repeated.lost_mass);
  EXPECT_EQ(computed.output_error, repeated.output_error);
  EXPECT_EQ(computed.kept_share, repeated.kept_share);
  EXPECT_EQ(computed.sensitivity, repeated.sensitivity);
  EXPECT_EQ(computed.worst_sensitivity, repeated.worst_sensitivity);
}

// Every other block of 16 gone: m = 1/2, a new draw changes 2 * 1/2 * 1/2 = 1/2 of the positions. PS(4) = 4 / 16.
TEST(PrefixScan, RelativeSensitivityIsOneWhereTheSetIsAsGoodAsRedrawn) {
  const UniformScan uniform(64);
  PrefixScanSettings settings;
  settings.max_shift = 8;
  settings.step = 4;
  const PrefixScan scan = scan_prefix(uniform.reference, uniform.alternate(16), settings);
  EXPECT_NEAR(scan.mean_loss, 0.5, 1e-12);
  EXPECT_NEAR(scan.relative_sensitivity(0), 0, 1e-12);
  EXPECT_NEAR(scan.relative_sensitivity(1), 0.5, 1e-12);
  EXPECT_NEAR(scan.relative_sensitivity(2), 1.0, 1e-12);
}

TEST(PrefixScan, KeptShareCountsOnlyTheAskedPositions) {
  const UniformScan uniform(64);
  PrefixScanSettings settings;
  settings.kept_positions = {14, 15, 16, 17};  // the first two in a kept block of 16, the others in an evicted one
  const PrefixScan scan = scan_prefix(uniform.reference, uniform.alternate(16), settings);
  EXPECT_EQ(scan.kept_share[0], 0.5);
  settings.kept_positions = {14};
  EXPECT_EQ(scan_prefix(uniform.reference, uniform.alternate(16), settings).kept_share[0], 1.0);
}

// Two layers of three heads with blocks chosen at random, other ones from shift 9 on: the scan by runs gives the figures
// of the scan by caches.
TEST(PrefixScan, OfEvictionEqualsScanOfCaches) {
  AttentionReference reference({0, 1000});
  std::vector<kv::LayerTensors> layers;
  for (std::uint64_t layer = 0; layer < 2; ++layer) {
    layers.emplace_back();
    for (std::uint64_t head = 0; head < 3; ++head) layers.back().push_back(white_head(200, 2, 8, 10 * layer + head));
    reference.add_layer(layers.back());
  }
  const auto evict_at = [&](std::int64_t layer, std::int64_t shift) {
    std::vector<kv::PositionRuns> heads(3);
    for (std::size_t head = 0; head < 3; ++head) {
      for (std::int64_t block = 0; block * 20 - shift < 200; ++block) {
        if (mix64(static_cast<std::uint64_t>(block * 31 + layer * 7) + head + (shift >= 9 ? 1 : 0)) % 8 != 0) continue;
        const std::int64_t begin = std::max<std::int64_t>(0, block * 20 - shift);
        const std::int64_t end = std::min<std::int64_t>(200, block * 20 - shift + 20);
        if (begin < end) heads[head].push_back({begin, end});
      }
    }
    return heads;
  };
  const auto compress = [&](std::int64_t layer, std::int64_t shift) {
    const auto runs = evict_at(layer, shift);
    kv::LayerCache cache;
    for (std::size_t head = 0; head < 3; ++head) {
      cache.heads.push_back(evict(layers[static_cast<std::size_t>(layer)][head],
                                  [&](std::int64_t j) { return !kv::contains(runs[head], j); }));
    }
    return cache;
  };
  PrefixScanSettings settings;
  settings.max_shift = 40;
  for (const HeadReduction reduction : {HeadReduction::reader, HeadReduction::mean, HeadReduction::max}) {
    settings.reduction = reduction;
    settings.kept_positions =
        reduction == HeadReduction::max ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{50, 51, 52};
    const PrefixScan caches = scan_prefix(reference, compress, settings);
    const PrefixScan runs = scan_prefix_of_eviction(reference, evict_at, settings);
    EXPECT_EQ(runs.shift, caches.shift);
    EXPECT_THAT(runs.lost_mass, ::testing::Pointwise(::testing::DoubleNear(1e-12), caches.lost_mass));
    EXPECT_THAT(runs.output_error, ::testing::Pointwise(::testing::DoubleNear(1e-11), caches.output_error));
    EXPECT_THAT(runs.kept_share, ::testing::Pointwise(::testing::DoubleNear(1e-15), caches.kept_share));
    EXPECT_THAT(runs.sensitivity, ::testing::Pointwise(::testing::DoubleNear(1e-12), caches.sensitivity));
    EXPECT_THAT(runs.worst_sensitivity, ::testing::Pointwise(::testing::DoubleNear(1e-12), caches.worst_sensitivity));
    EXPECT_NEAR(runs.mean_loss, caches.mean_loss, 1e-12);
    EXPECT_GT(*std::ranges::max_element(runs.sensitivity), 0.01);
  }
}

TEST(PrefixScan, RefusesImpossibleSettings) {
  const UniformScan uniform(64);
  const auto scan = [&](std::int64_t max_shift, std::int64_t step, std::vector<std::int64_t> kept) {
    PrefixScanSettings settings;
    settings.max_shift = max_shift;
    settings.step = step;
    settings.kept_positions = std::move(kept);
    (void)scan_prefix(uniform.reference, uniform.alternate(16), settings);
  };
  EXPECT_NO_THROW(scan(0, 1, {63}));
  EXPECT_THROW(scan(-1, 1, {}), InputError);
  EXPECT_THROW(scan(4, 0, {}), InputError);
  EXPECT_THROW(scan((1 << 24) + 1, 1 << 23, {}), InputError);
  EXPECT_THROW(scan(1'000'000, 1, {}), InputError);
  EXPECT_THROW(scan(0, 1, {64}), InputError);
}

}  // namespace
}  // namespace kvtide::loss
