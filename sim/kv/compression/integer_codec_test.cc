#include "kv/compression/integer_codec.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvtide::kv {
namespace {

IntegerGroups codec(std::int32_t bits, std::int64_t group, bool is_symmetric = false) {
  return {bits, group, is_symmetric};
}

// Four values 0, 1, 2, 15 at 4 bits: scale (15 - 0) / 15 = 1: all codes exact. At 2 bits: scale 5: 0, 1 -> 0, 2 ->
// 0, 15.
TEST(IntegerCodec, RoundsToTheNearestOfItsLevels) {
  RowMatrix row(1, 4);
  row << 0, 1, 2, 15;
  RowMatrix coarse = row;
  quantize_rows(row, 0, 1, codec(4, 4), GroupAxis::token);
  EXPECT_TRUE(row.isApprox(RowMatrix{{0, 1, 2, 15}}));
  quantize_rows(coarse, 0, 1, codec(2, 4), GroupAxis::token);
  EXPECT_TRUE(coarse.isApprox(RowMatrix{{0, 0, 0, 15}}));
}

TEST(IntegerCodec, ConstantGroupIsExact) {
  RowMatrix rows = RowMatrix::Constant(8, 4, 0.5F);
  quantize_rows(rows, 0, 8, codec(2, 4), GroupAxis::channel);
  EXPECT_EQ(rows, RowMatrix::Constant(8, 4, 0.5F));
}

TEST(IntegerCodec, GroupsRunAlongTheirAxis) {
  // Channels differ by a factor of 1000: along tokens each channel keeps its own range, so small values survive.
  RowMatrix rows(4, 2);
  rows << 0, 0, 1, 1000, 2, 2000, 3, 3000;
  RowMatrix along_channel = rows;
  quantize_rows(along_channel, 0, 4, codec(2, 4), GroupAxis::channel);
  EXPECT_TRUE(along_channel.isApprox(rows));  // 4 levels, 4 equidistant values
  RowMatrix along_token = rows;
  quantize_rows(along_token, 0, 4, codec(2, 2), GroupAxis::token);
  EXPECT_TRUE(along_token.isApprox(rows));  // two values a group are its minimum and maximum
}

TEST(IntegerCodec, RowsBeyondTheResidualLimitStay) {
  RandomStream stream(1, "codec");
  RowMatrix rows(8, 4);
  for (std::int64_t element = 0; element < rows.size(); ++element)
    rows.data()[element] = static_cast<float>(stream.normal());
  const RowMatrix before = rows;
  quantize_rows(rows, 0, 5, codec(2, 4), GroupAxis::token);
  EXPECT_EQ(rows.bottomRows(3), before.bottomRows(3));
  EXPECT_NE(rows.topRows(5), before.topRows(5));
}

TEST(IntegerCodec, MetadataCountsShortGroups) {
  // 33 rows of 8 channels, group 32 along tokens: 2 groups a channel, 16 groups of 4 B.
  EXPECT_EQ(group_metadata_bytes(33, 8, codec(4, 32), GroupAxis::channel), 64u);
  EXPECT_EQ(group_metadata_bytes(32, 8, codec(4, 32), GroupAxis::channel), 32u);
  EXPECT_EQ(group_metadata_bytes(3, 64, codec(4, 32), GroupAxis::token), 24u);
}

// Field case C10: blocks of 32 with one 16-bit scale: 34 B at 8 bits = 8.5, 18 B at 4 bits = 4.5; with scale and zero point
// 20 B = 5.0 and 24 B at 5 bits = 6.0; 8.5 beside 6.0 is 7.25 in the mean. 2,048 tokens, 32 layers, 8 heads, 128 channels:
// fp16 128 MiB, 8.5 bits 68 MiB, 4.5 bits 36 MiB; twice the tokens at 5.0 bits 80 MiB.
TEST(IntegerCodec, EffectiveBitsIncludeTheMetadata) {
  EXPECT_EQ(effective_bits({8, 32, true}), 8.5);
  EXPECT_EQ(effective_bits({4, 32, true}), 4.5);
  EXPECT_EQ(effective_bits({4, 32, false}), 5.0);
  EXPECT_EQ((effective_bits({8, 32, true}) + effective_bits({5, 32, false})) / 2, 7.25);
  const auto mebibytes = [](std::int64_t tokens, std::int32_t bits, bool is_symmetric) {
    const Bytes payload = static_cast<Bytes>(tokens) * 128 * static_cast<Bytes>(bits) / 8;
    const Bytes metadata = group_metadata_bytes(tokens, 128, codec(bits, 32, is_symmetric), GroupAxis::token);
    return static_cast<double>((payload + metadata) * 32 * 8) / static_cast<double>(kMiB);
  };
  EXPECT_EQ(mebibytes(2048, 8, true), 68.0);
  EXPECT_EQ(mebibytes(2048, 4, true), 36.0);
  EXPECT_EQ(mebibytes(4096, 4, false), 80.0);
}

// max|x| = 7 at 4 bits: scale 1, codes -7..7, zero stays zero.
TEST(IntegerCodec, SymmetricKeepsZeroExactly) {
  RowMatrix row(1, 4);
  row << -7, 0, 2, 3.4F;
  quantize_rows(row, 0, 1, codec(4, 4, true), GroupAxis::token);
  EXPECT_TRUE(row.isApprox(RowMatrix{{-7, 0, 2, 3}}));
}

// T5 (loss-metrics.md): b-bit min/max on uniform data has MSE = step^2 / 12. Range 1, 4 bits: (1/15)^2 / 12
// = 3.7037e-4. Group 4096 so that the sample range is the whole range (expected shortfall 2/4097); 64 groups: 1 %
// allowed.
TEST(IntegerCodec, UniformDataHasMeanSquareErrorOfStepSquaredOverTwelve) {
  RandomStream stream(3, "uniform");
  RowMatrix rows(64, 4096);
  for (std::int64_t element = 0; element < rows.size(); ++element)
    rows.data()[element] = static_cast<float>(stream.uniform());
  const RowMatrix before = rows;
  quantize_rows(rows, 0, 64, codec(4, 4096), GroupAxis::token);
  const double mse = (rows - before).cast<double>().squaredNorm() / static_cast<double>(rows.size());
  EXPECT_NEAR(mse, 3.7037e-4, 3.7e-6);
}

TEST(IntegerCodec, MoreBitsNeverRaiseTheError) {
  RandomStream stream(4, "gauss");
  RowMatrix rows(64, 64);
  for (std::int64_t element = 0; element < rows.size(); ++element)
    rows.data()[element] = static_cast<float>(stream.normal());
  double last = 1e30;
  for (const int bits : {2, 4, 8}) {
    RowMatrix coded = rows;
    quantize_rows(coded, 0, 64, codec(bits, 32), GroupAxis::token);
    const double mse = (coded - rows).cast<double>().squaredNorm();
    EXPECT_LT(mse, last);
    last = mse;
  }
}

}  // namespace
}  // namespace kvtide::kv
