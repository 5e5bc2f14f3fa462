#include "gpu/memory_traffic.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kvtide::gpu {
namespace {

/// A byte takes 1 ns, and 1 ns more times the square of the share of writes. Remembers which shares it was asked.
class SquareMemory final : public MemoryModel {
 public:
  [[nodiscard]] MemoryPerformance measure(const AccessPattern& pattern) override {
    asked.push_back(pattern.write_share);
    const double nanoseconds = 1 + pattern.write_share * pattern.write_share;
    return {.bytes_per_second = 1e9 / nanoseconds, .peak_fraction = 1, .row_hit_rate = pattern.write_share};
  }
  std::vector<double> asked;
};

class Traffics : public testing::Test {
 protected:
  TrafficTime time(double write_share) {
    return traffic_time(profile_, memory_, {{.bytes = 1e9, .chunk_bytes = 4096, .write_share = write_share}});
  }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  SquareMemory memory_;
};

// Between 2/8 and 3/8: the middle of 1 + 1/16 and 1 + 9/64 s is 1.1015625 s; the square itself would say 1.0977.
TEST_F(Traffics, AShareOfWritesIsReadBetweenEighths) {
  const TrafficTime result = time(5.0 / 16);
  EXPECT_EQ(memory_.asked, (std::vector{0.25, 0.375}));
  EXPECT_DOUBLE_EQ(result.seconds, 1.1015625);
  EXPECT_DOUBLE_EQ(result.row_hit_rate, 5.0 / 16);
}

TEST_F(Traffics, WholeEighthsAndNearlyAllWritesAreMeasuredThemselves) {
  EXPECT_DOUBLE_EQ(time(0).seconds, 1);
  EXPECT_DOUBLE_EQ(time(0.5).seconds, 1.25);
  EXPECT_DOUBLE_EQ(time(0.875).seconds, 1 + 49.0 / 64);
  EXPECT_DOUBLE_EQ(time(0.9).seconds, 1.81);
  EXPECT_DOUBLE_EQ(time(1).seconds, 2);
  EXPECT_EQ(memory_.asked, (std::vector{0.0, 0.5, 0.875, 0.9, 1.0}));
}

// 1,000 shares below 7/8 ask for eight patterns.
TEST_F(Traffics, ManySharesAreFewPatterns) {
  for (int i = 0; i < 1000; ++i) (void)time(0.875 * i / 1000);
  EXPECT_EQ(std::set(memory_.asked.begin(), memory_.asked.end()).size(), 8U);
}

// Two parts follow one another; the row hits are those of the larger one. No bytes take no time and ask nothing.
TEST_F(Traffics, PartsAddUp) {
  const TrafficTime result = traffic_time(profile_, memory_, {{1e9, 4096, 0}, {2e9, 4096, 1}, {0, 4096, 0.5}});
  EXPECT_DOUBLE_EQ(result.seconds, 1 + 4);
  EXPECT_DOUBLE_EQ(result.row_hit_rate, 1);
  EXPECT_EQ(memory_.asked.size(), 2U);
}

}  // namespace
}  // namespace kvtide::gpu
