#include "loss/prefix_scan.h"

#include "base/error.h"
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

TEST(PrefixScan, KeptShareCountsOnlyTheAskedPositions) {
  const UniformScan uniform(64);
  PrefixScanSettings settings;
  settings.kept_positions = {14, 15, 16, 17};  // the first two in a kept block of 16, the others in an evicted one
  const PrefixScan scan = scan_prefix(uniform.reference, uniform.alternate(16), settings);
  EXPECT_EQ(scan.kept_share[0], 0.5);
  settings.kept_positions = {14};
  EXPECT_EQ(scan_prefix(uniform.reference, uniform.alternate(16), settings).kept_share[0], 1.0);
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
