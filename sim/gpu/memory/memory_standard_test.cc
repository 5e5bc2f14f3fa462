#include "gpu/memory/memory_standard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/data_directory.h"
#include "base/error.h"
#include "gpu/memory/command_timings.h"
#include "gpu/memory/memory_device.h"

namespace kvtide::gpu {
namespace {

TEST(MemoryStandard, CapacityIsTheProductOfTheLevels) {
  // JESD238 8-high stack of 16 Gb dies: 16 GiB. HBM2 4 Gb a pseudo channel x 16 = 8 GiB. HBM4 32 x 2 x 512 MiB = 32
  // GiB.
  EXPECT_EQ(load_memory_standard("hbm2").geometry.unit_bytes(), 8 * kGiB);
  EXPECT_EQ(load_memory_standard("hbm3").geometry.unit_bytes(), 16 * kGiB);
  EXPECT_EQ(load_memory_standard("hbm3e").geometry.unit_bytes(), 24 * kGiB);
  EXPECT_EQ(load_memory_standard("hbm4").geometry.unit_bytes(), 32 * kGiB);
  // GDDR6 8 Gb chip: 2 channels x 16 banks x 16384 rows x 2 KiB = 1 GiB. GDDR7 16 Gb chip: 4 channels of the same.
  EXPECT_EQ(load_memory_standard("gddr6").geometry.unit_bytes(), 1 * kGiB);
  EXPECT_EQ(load_memory_standard("gddr6x").geometry.unit_bytes(), 1 * kGiB);
  EXPECT_EQ(load_memory_standard("gddr7").geometry.unit_bytes(), 2 * kGiB);
}

TEST(MemoryStandard, EveryShippedFileLoadsAndItsBurstIs32Bytes) {
  const auto names = list_data_files("hw_profiles/memory", {".yaml"});
  EXPECT_THAT(names, testing::IsSupersetOf({"hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4", "gddr6", "gddr6x", "gddr7"}));
  for (const std::string& name : names) {
    const MemoryStandard standard = load_memory_standard(name);
    EXPECT_EQ(standard.geometry.burst_bytes(), 32U) << name;  // width x burst length / 8, the L2 sector of the GPUs
  }
}

TEST(MemoryDevice, PeakIsPinsTimesRate) {
  // V100 4 HBM2 at 1.75 Gb/s 896 GB/s, H100 SXM 5120 bit x 5.24 Gb/s / 8 = 3353.6 GB/s (PMC10448217 table 3: 3352),
  // A100 80 GB 5120 x 3.19 / 8 = 2041.6, B200 7680 x 7.99 / 8 = 7670.
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("hbm2"), 32, 1.75e9}).peak_bytes_per_second(), 896e9);
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("hbm3"), 80, 5.24e9}).peak_bytes_per_second(), 3353.6e9);
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("hbm2e"), 40, 3.19e9}).peak_bytes_per_second(), 2041.6e9);
  EXPECT_NEAR((MemoryDevice{load_memory_standard("hbm3e"), 120, 7.99e9}).peak_bytes_per_second(), 7670.4e9, 1e3);
  // L40 24 x 16 bit x 18 / 8 = 864, RTX 4090 24 x 16 x 21 / 8 = 1008, RTX 5090 64 x 8 x 28 / 8 = 1792.
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("gddr6"), 24, 18e9}).peak_bytes_per_second(), 864e9);
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("gddr6x"), 24, 21e9}).peak_bytes_per_second(), 1008e9);
  EXPECT_DOUBLE_EQ((MemoryDevice{load_memory_standard("gddr7"), 64, 28e9}).peak_bytes_per_second(), 1792e9);
}

TEST(CommandTimings, LongCommandsShiftTheirSuccessors) {
  // HBM3 at 6.4 Gb/s, tick 0.3125 ns; ACT 3 ticks, RD/WR 2, PRE 1 (JESD238 by way of Ramulator 2.1).
  const CommandTimings t = command_timings(load_memory_standard("hbm3"), 6.4e9);
  EXPECT_DOUBLE_EQ(t.tick_seconds, 0.3125e-9);
  EXPECT_EQ(t.act_to_read, 62 + 2 - 1);
  EXPECT_EQ(t.act_to_write, 30 + 2 - 1);
  EXPECT_EQ(t.act_to_pre, 90 + 2 - 0);
  EXPECT_EQ(t.pre_to_act, 52 + 0 - 2);
  EXPECT_EQ(t.act_to_act_same_bank, 144);
  EXPECT_EQ(t.read_to_pre, 18 + 1 - 0);
  EXPECT_EQ(t.write_to_pre, 20 + 4 + 66 + 1);
  EXPECT_EQ(t.read_to_read, 4);
  EXPECT_EQ(t.read_to_read_same_group, 8);
  EXPECT_EQ(t.read_to_read_other_stack, 6);
  EXPECT_EQ(t.four_acts, 48);
  EXPECT_EQ(t.write_to_read, 20 + 4 + 14);
  EXPECT_EQ(t.write_to_read_same_group, 20 + 4 + 20);
  EXPECT_EQ(t.refresh_interval, 12480);
  EXPECT_EQ(t.refresh_to_act, 1120 - 2);
  EXPECT_EQ(t.read_latency, 40 + 4);
}

TEST(CommandTimings, TimesAreKeptAndClockCountsScaleWithTheRate) {
  // HBM3 at 5.24 Gb/s: CK = 4 / 5.24 GHz = 0.76336 ns. tRCD 19.375 ns = 25.4 -> 26 CK = 52 ticks; tCCD_S 2 CK = 4
  // ticks; tCCD_L = max(4 CK, 2.5 ns = 3.3 CK) = 8 ticks; tRFC 350 ns = 458.5 -> 459 CK = 918 ticks.
  const CommandTimings t = command_timings(load_memory_standard("hbm3"), 5.24e9);
  EXPECT_EQ(t.act_to_read, 52 + 1);
  EXPECT_EQ(t.read_to_read, 4);
  EXPECT_EQ(t.read_to_read_same_group, 8);
  EXPECT_EQ(t.refresh_to_act, 918 - 2);
}

TEST(CommandTimings, Gddr6CountsItsOwnClock) {
  // GDDR6 at 14 Gb/s: CK = 8 / 14 GHz = 0.5714 ns, a tick. Burst 16 / 8 = 2 ticks; tRCD 15.4 ns = 26.95 -> 27;
  // tRP 15.4 -> 27; tRAS 30.2 = 52.85 -> 53; tFAW 16.5 = 28.9 -> 29; tREFI 1900 = 3325; CL 13.7 = 23.98 -> 24.
  const CommandTimings t = command_timings(load_memory_standard("gddr6"), 14e9);
  EXPECT_TRUE(t.one_command_bus);
  EXPECT_EQ(t.act_to_read, 27);
  EXPECT_EQ(t.pre_to_act, 27);
  EXPECT_EQ(t.act_to_pre, 53);
  EXPECT_EQ(t.four_acts, 29);
  EXPECT_EQ(t.refresh_interval, 3325);
  EXPECT_EQ(t.read_to_read, 2);
  EXPECT_EQ(t.read_latency, 24 + 2);
}

TEST(CommandTimings, RefusesMoreTicksThanTheControllerCounts) {
  MemoryStandard standard = load_memory_standard("hbm3");
  standard.timings.refi.seconds = 1e-3;
  EXPECT_NO_THROW((void)command_timings(standard, 6.4e9));          // 3.2 million ticks
  EXPECT_THROW((void)command_timings(standard, 1e12), InputError);  // 500 million
}

class MemoryStandardFile : public testing::Test {
 protected:
  static std::string text() {
    std::ifstream in(data_directory() + "/hw_profiles/memory/hbm3.yaml");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string load_error(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const std::string path = testing::TempDir() + "/standard.yaml";
    std::ofstream(path) << text;
    try {
      (void)load_memory_standard(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(MemoryStandardFile, RefusesWhatDoesNotFitTogether) {
  EXPECT_EQ(load_error(text(), "banks: 4", "banks: 8"), "");  // 2 x 4 x 8 = 64 banks, the most that fit
  EXPECT_THAT(load_error(text(), "banks: 4", "banks: 16"), testing::HasSubstr("128 banks"));
  EXPECT_THAT(load_error(text(), "banks: 4", "banks: 3"), testing::HasSubstr("power of two"));
  EXPECT_THAT(load_error(text(), "row_size: 1 KiB", "row_size: 1000 B"), testing::HasSubstr("1000 B"));
  EXPECT_THAT(load_error(text(), "row_size: 1 KiB", "row_size: 1024"),
              testing::Not(testing::IsEmpty()));  // a unit is required
  EXPECT_THAT(load_error(text(), "rc: {value: 45 ns", "rc: {value: 28 ns"),
              testing::HasSubstr("rc is shorter than ras"));
  EXPECT_THAT(load_error(text(), "refi: {value: 3900 ns", "refi: {value: 600 ns"), testing::HasSubstr("refresh"));
  EXPECT_THAT(load_error(text(), "  cwl:", "  cwll:"), testing::HasSubstr("cwl"));
  EXPECT_THAT(load_error(text(), "data_rate_gbps: 6.4", "data_rate_gbps: -1"), testing::HasSubstr("data_rate_gbps"));
}

TEST(MemoryDevice, RefusesCountsAndRatesOutOfRange) {
  MemoryDevice device{load_memory_standard("hbm3"), 0, 5e9};
  EXPECT_THROW(device.validate(), InputError);
  device.num_channels = 1;
  EXPECT_NO_THROW(device.validate());
  device.num_channels = 4097;
  EXPECT_THROW(device.validate(), InputError);
  device.num_channels = 80;
  device.data_rate = std::nan("");
  EXPECT_THROW(device.validate(), InputError);
}

}  // namespace
}  // namespace kvtide::gpu
