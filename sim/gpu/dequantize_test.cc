#include "gpu/dequantize.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// The header's example: 2,097,152 elements of 4 bit = 1,048,576 B, 65,536 groups x 4 B = 262,144 B.
TEST(Dequantize, ReadsCodesAndScalesAndWrites16Bit) {
  const StreamWork work = dequantize_work({.num_elements = 2'097'152});
  EXPECT_EQ(work.read_bytes, 1'048'576u + 262'144u);
  EXPECT_EQ(work.write_bytes, 4'194'304u);
  EXPECT_EQ(work.num_blocks, 256);
  EXPECT_EQ(work.flops, 4.0 * 2'097'152);
}

// Three elements of 2 bit fill one byte, and their one group is stored whole.
TEST(Dequantize, ARaggedGroupIsStoredWhole) {
  const StreamWork work = dequantize_work({.num_elements = 3, .bits = 2, .group_size = 32, .group_bits = 32});
  EXPECT_EQ(work.read_bytes, 1u + 4u);
  EXPECT_EQ(work.write_bytes, 6u);
}

TEST(Dequantize, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)dequantize_work({.num_elements = -1}), InputError);
  EXPECT_THROW((void)dequantize_work({.num_elements = INT64_MAX}), InputError);
  EXPECT_THROW((void)dequantize_work({.num_elements = 1, .bits = 0}), InputError);
  EXPECT_THROW((void)dequantize_work({.num_elements = 1, .bits = 17}), InputError);
  EXPECT_THROW((void)dequantize_work({.num_elements = 1, .group_size = 0}), InputError);
}

}  // namespace
}  // namespace kvtide::gpu
