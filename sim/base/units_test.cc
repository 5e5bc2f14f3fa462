#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide {
namespace {

TEST(Units, DecimalAndBinarySizesDiffer) {
  EXPECT_EQ(parse_quantity("80 GB", Dimension::size), 80e9);
  EXPECT_EQ(parse_quantity("80 GiB", Dimension::size), 80.0 * 1073741824.0);
}

TEST(Units, BareNumberIsRefusedUnlessZero) {
  EXPECT_EQ(parse_quantity("0", Dimension::time), 0.0);
  EXPECT_EQ(parse_quantity("45", Dimension::time), std::nullopt);
}

TEST(Units, UnitOfAnotherDimensionIsRefused) {
  EXPECT_EQ(parse_quantity("45 GB", Dimension::time), std::nullopt);
  EXPECT_EQ(parse_quantity("45 xyz", Dimension::time), std::nullopt);
  EXPECT_EQ(parse_quantity("nan s", Dimension::time), std::nullopt);
}

TEST(Units, EightGibibytesArePrintedAsGiB) {
  EXPECT_EQ(format_bytes(8.0 * kGiB), "8.00 GiB");
}

// Field case C13: 80 layers x 32,768 tokens x 8 heads x 128 = 2,684,354,560 > 2^31 - 1.
TEST(Units, ProductsBeyond32BitsAreExactAndBeyond64BitsRefused) {
  EXPECT_EQ(checked_product(checked_product(80, 32768, "kv"), 8 * 128, "kv"), 2684354560ULL);
  EXPECT_THROW((void)checked_product(std::uint64_t{1} << 40, std::uint64_t{1} << 30, "kv"), InputError);
}

TEST(Units, SecondsRoundToNearestPicosecond) {
  EXPECT_EQ(from_seconds(1.2345e-9).count(), 1235);  // 1234.5 ps rounds away from zero
  EXPECT_EQ(from_seconds(1e-12).count(), 1);
}

}  // namespace
}  // namespace kvtide
