#include "gpu/validation/dram_reference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr const char* kHeader =
    "simulator,standard,mapping,pattern,block_bytes,n_requests,achieved_fraction,row_hit_rate,mean_latency_ns,window,"
    "variant\n";

std::vector<DramRow> rows_of(const std::string& lines) {
  const std::string path = testing::TempDir() + "dram_rows.csv";
  std::ofstream(path) << kHeader << lines;
  std::vector<DramRow> rows = load_dram_rows(path);
  std::filesystem::remove(path);
  return rows;
}

TEST(DramRows, OnlyOurMapsAndSchedulerAreRun) {
  const std::vector<DramRow> rows = rows_of(
      "ramulator2,HBM3,hash256,seq,0,1000,0.9,0.9,60,64,base\n"
      "ramulator2,HBM3,row1k,seq,0,1000,0.9,0.9,60,64,q128\n"
      "ramulator2,HBM3,hash256,seq,0,1000,0.9,0.9,60,64,default\n"
      "ramulator2,HBM3,native-MOP4CLXOR,seq,0,1000,0.9,0.9,60,64,base\n"
      "dramsim3,HBM2-legacy,hash256,seq,0,1000,0.9,0.9,60,64,base\n"
      "ramulator2,HBM2,hash256,idle_random32,0,1000,0.1,0,37,1,noref\n");
  ASSERT_EQ(rows.size(), 6u);
  ASSERT_TRUE(rows[0].run && rows[1].run && rows[5].run);
  EXPECT_FALSE(rows[2].run || rows[3].run || rows[4].run);
  EXPECT_EQ(rows[0].run->queue_size, 64);
  EXPECT_EQ(rows[1].run->queue_size, 128);
  EXPECT_EQ(rows[1].run->mapping, AddressMapping::row1k);
  EXPECT_EQ(rows[5].run->pattern, "random32");
  EXPECT_EQ(rows[5].run->refresh, RefreshMode::none);
}

TEST(DramRows, ThreadsChangeNothing) {
  const std::string lines =
      "ramulator2,HBM3,hash256,seq,0,20000,0.9,0.9,60,4096,base\n"
      "ramulator2,HBM2,hash256,gather256,0,20000,0.5,0.9,60,2048,base\n";
  std::vector<DramRow> one = rows_of(lines), two = one;
  run_dram_rows(one, 1);
  run_dram_rows(two, 2);
  for (std::size_t index = 0; index < one.size(); ++index) {
    EXPECT_GT(one[index].outcome.peak_fraction, 0.1);
    EXPECT_EQ(one[index].outcome.last_completion, two[index].outcome.last_completion);
  }
}

TEST(DramRows, AFailedRowEndsTheCallWithItsMessage) {
  std::vector<DramRow> rows = rows_of("ramulator2,HBM3,hash256,zigzag,0,1000,0.9,0.9,60,64,base\n");
  EXPECT_THROW(run_dram_rows(rows, 2), InputError);
  EXPECT_THROW(rows_of("ramulator2,HBM3,hash256,seq,0,0,0.9,0.9,60,64,base\n"), InputError);
  EXPECT_THROW(rows_of("ramulator2,HBM3,hash256,seq,0,10,1.9,0.9,60,64,base\n"), InputError);
}

}  // namespace
}  // namespace kvtide::gpu
