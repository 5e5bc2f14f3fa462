#include "gpu/host_transfer.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

class HostTransferOnH100 : public testing::Test {
 protected:
  double microseconds(const HostTransferWork& work) {
    return to_microseconds(time_host_transfer(profile_, work).duration);
  }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
};

// 1 GiB / (63 GB/s x 256 / 282) = 18,774 us; 16,384 pieces x 1.5 us = 24,576 us; + 2 us.
TEST_F(HostTransferOnH100, ManyPiecesAreBoundByTheirSubmission) {
  EXPECT_NEAR(microseconds({.bytes = Bytes{1} << 30, .num_pieces = 1024}), 18'776, 5);
  EXPECT_NEAR(microseconds({.bytes = Bytes{1} << 30, .num_pieces = 16'384}), 24'578, 5);
}

// A kernel submits nothing: 132 SMs x 32 KiB in flight over 1.2 us are 3.6 TB/s, so the link binds.
TEST_F(HostTransferOnH100, AKernelPaysNoPieces) {
  EXPECT_NEAR(microseconds({.bytes = Bytes{1} << 30, .num_pieces = 1 << 20, .by_kernel = true}), 18'777, 5);
}

TEST_F(HostTransferOnH100, TheImpossibleIsRefused) {
  EXPECT_EQ(microseconds({.bytes = 0}), 0);
  EXPECT_THROW((void)microseconds({.bytes = 1, .num_pieces = -1}), InputError);
  profile_.host_bandwidth = 0;
  EXPECT_THROW((void)microseconds({.bytes = 1}), InputError);
}

// Half of the Gen 4 link's 31.5 GB/s: twice the time of Gen 5's 63.
TEST(HostTransfer, EveryProfileNamesItsLink) {
  for (const std::string& name : known_gpus()) EXPECT_GT(load_gpu_profile(name).host_bandwidth, 1e10) << name;
}

}  // namespace
}  // namespace kvtide::gpu
