#include "serving/device_name.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::serving {
namespace {

TEST(DeviceName, SpellingAndCaseDoNotMatter) {
  EXPECT_EQ(gpu_of_device("RTX4090", ""), "rtx-4090");
  EXPECT_EQ(gpu_of_device("H100_SXM", ""), "h100-sxm");
}

TEST(DeviceName, TheLongestNameInTheDriversTextWins) {
  EXPECT_EQ(gpu_of_device("RTXPRO6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"), "rtx-pro-6000");
  // "a10" occurs in it too.
  EXPECT_EQ(gpu_of_device("", "NVIDIA A100-SXM4-40GB A100-SXM-40GB"), "a100-sxm-40gb");
}

TEST(DeviceName, UnknownGpusAreRefused) {
  EXPECT_THROW((void)gpu_of_device("Voodoo 2", "3dfx Voodoo 2"), InputError);
}

}  // namespace
}  // namespace kvtide::serving
