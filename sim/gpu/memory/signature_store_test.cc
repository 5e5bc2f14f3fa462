#include "gpu/memory/signature_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace kvtide::gpu {
namespace {

class SignatureStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("signatures-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::filesystem::path only_file() const { return *std::filesystem::directory_iterator(folder_); }

  std::filesystem::path folder_;
  MemoryDevice device_{load_memory_standard("hbm2"), 8, 2.0e9};
  AccessPattern pattern_{.chunk_bytes = 4096, .num_streams = 7, .write_share = 0.1, .bytes_in_flight = 65536};
  // 0.1 has no finite binary form: only an exact notation gives the same bits back.
  MemoryPerformance performance_{
      .bytes_per_second = 1e11 / 3, .peak_fraction = 0.1, .row_hit_rate = std::nan(""), .relative_half_width = 0.01};
};

TEST_F(SignatureStoreTest, GivesBackTheSameBits) {
  SignatureStore(folder_, device_).add(pattern_, performance_);
  const SignatureStore again(folder_, device_);
  ASSERT_EQ(again.known().size(), 1U);
  const auto& [pattern, performance] = *again.known().begin();
  EXPECT_EQ(pattern, pattern_);
  EXPECT_EQ(performance.bytes_per_second, performance_.bytes_per_second);
  EXPECT_EQ(performance.peak_fraction, performance_.peak_fraction);
  EXPECT_TRUE(std::isnan(performance.row_hit_rate));
  EXPECT_EQ(performance.relative_half_width, performance_.relative_half_width);
}

TEST_F(SignatureStoreTest, AnotherDeviceKnowsNothingOfIt) {
  SignatureStore(folder_, device_).add(pattern_, performance_);
  MemoryDevice deeper = device_;
  deeper.queue_size += 1;
  EXPECT_TRUE(SignatureStore(folder_, deeper).known().empty());
  MemoryDevice slower = device_;
  slower.standard.timings.rp.seconds += 1e-12;
  EXPECT_TRUE(SignatureStore(folder_, slower).known().empty());
}

TEST_F(SignatureStoreTest, ATornLineIsForgottenAndTheOthersKept) {
  SignatureStore(folder_, device_).add(pattern_, performance_);
  AccessPattern other = pattern_;
  other.chunk_bytes = 64;
  SignatureStore(folder_, device_).add(other, performance_);
  std::filesystem::resize_file(only_file(), std::filesystem::file_size(only_file()) - 3);
  const SignatureStore again(folder_, device_);
  ASSERT_EQ(again.known().size(), 1U);
  EXPECT_EQ(again.known().begin()->first, pattern_);
}

TEST_F(SignatureStoreTest, AFileOfAnotherVersionIsLeftAlone) {
  SignatureStore(folder_, device_).add(pattern_, performance_);
  const std::filesystem::path file = only_file();
  std::ofstream(file) << "kvtide memory signatures 0\n";
  const SignatureStore again(folder_, device_);
  EXPECT_TRUE(again.known().empty());
  again.add(pattern_, performance_);
  EXPECT_EQ(std::filesystem::file_size(file), 27U);  // "kvtide memory signatures 0" and a newline
}

TEST_F(SignatureStoreTest, AFolderThatCannotBeMadeCostsNothing) {
  const SignatureStore store("/proc/no/such/folder", device_);
  EXPECT_TRUE(store.known().empty());
  EXPECT_NO_THROW(store.add(pattern_, performance_));
}

TEST_F(SignatureStoreTest, TheSampledTierAsksItFirst) {
  // What is on disk is believed: 3.33e10 B/s is not what a simulation of this pattern gives.
  SignatureStore(folder_, device_).add(pattern_, performance_);
  const auto memory = make_memory_model(device_, Fidelity::sampled, folder_);
  EXPECT_EQ(memory->measure(pattern_).bytes_per_second, performance_.bytes_per_second);
  EXPECT_EQ(memory->statistics().num_known, 1);
  AccessPattern fresh = pattern_;
  fresh.chunk_bytes = 128;
  const double simulated = memory->measure(fresh).bytes_per_second;
  EXPECT_EQ(SignatureStore(folder_, device_).known().at(fresh).bytes_per_second, simulated);
}

}  // namespace
}  // namespace kvtide::gpu
