// llama.cpp's formats on a row worked out by hand from ggml's reference quantizers: x[0] = -8, x[1] = 4, x[2] = 1.3,
// x[3] = 0.4, the other 28 channels 0.

#include <gtest/gtest.h>

#include "kv/compression/codec.h"

namespace kvtide::kv {
namespace {

std::vector<float> coded(const char* format) {
  RowMatrix rows = RowMatrix::Zero(1, 32);
  rows(0, 0) = -8;
  rows(0, 1) = 4;
  rows(0, 2) = 1.3F;
  rows(0, 3) = 0.4F;
  const Quantize stage;
  const Codec& codec = find_codec(format);
  const std::vector<std::int64_t> block{1};
  const std::vector<std::int64_t> positions{0};
  codec.code({&codec, &stage, true, 32}, {&rows, block, positions, nullptr});
  return {rows.data(), rows.data() + 5};
}

// d = -8 / -8 = 1: floor(x + 8.5) - 8 = -8, 4, 1, 0.
TEST(GgmlCodec, Q4_0ScalesByTheValueOfLargestMagnitude) {
  EXPECT_EQ(coded("q4_0"), (std::vector<float>{-8, 4, 1, 0, 0}));
}

// d = -8 / -16 = 0.5: floor(2 x + 16.5) - 16 = -16, 8, 3 (19.1), 1 (17.3).
TEST(GgmlCodec, Q5_0HasTwiceTheLevels) {
  EXPECT_EQ(coded("q5_0"), (std::vector<float>{-8, 4, 1.5F, 0.5F, 0}));
}

// d = 12 / 15 = 0.8, fp16 0.7998046875; codes floor((x + 8) / 0.8 + 0.5) = 0, 15, 12 (12.125), 11 (11), zero 10 (10.5).
TEST(GgmlCodec, Q4_1CountsFromTheMinimum) {
  const float d = 0.7998046875F;
  EXPECT_EQ(coded("q4_1"), (std::vector<float>{-8, 15 * d - 8, 12 * d - 8, 11 * d - 8, 10 * d - 8}));
}

// d = 12 / 31 = 0.387097, fp16 0.38720703125; codes floor((x + 8) / 0.387097 + 0.5) = 0, 31, 24 (24.525), 22 (22.2),
// zero 21 (21.17).
TEST(GgmlCodec, Q5_1CountsFromTheMinimum) {
  const float d = 0.38720703125F;
  EXPECT_EQ(coded("q5_1"), (std::vector<float>{-8, 31 * d - 8, 24 * d - 8, 22 * d - 8, 21 * d - 8}));
}

// d = 8 / 127 = 0.0629921, fp16 0.062988281; codes round(x / d) = -127, 64 (63.5, away from zero), 21 (20.64), 6 (6.35).
TEST(GgmlCodec, Q8_0RoundsHalvesAwayFromZero) {
  const float d = 0.06298828125F;
  EXPECT_EQ(coded("q8_0"), (std::vector<float>{-127 * d, 64 * d, 21 * d, 6 * d, 0}));
}

// A row of the levels themselves, as llama.cpp lists them (kvalues_iq4nl, ggml-common.h): scale 1, nothing is lost.
TEST(GgmlCodec, Iq4NlHasSixteenUnevenLevels) {
  RowMatrix levels(1, 32);
  levels << -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,  //
      -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113;
  RowMatrix rows = levels;
  const Quantize stage;
  const Codec& codec = find_codec("iq4_nl");
  const std::vector<std::int64_t> block{1};
  const std::vector<std::int64_t> positions{0};
  codec.code({&codec, &stage, true, 32}, {&rows, block, positions, nullptr});
  EXPECT_EQ(rows, levels);
}

// First d = -8 / -127: x / d = -127, 63.5 -> 69 (63.5 lies 10.5 from 53 and 5.5 from 69), 20.6 -> 25 (7.6 from 13, 4.4 from
// 25), 6.35 -> 1 (5.35; 13 is 6.65 away), 0 -> 1. With weights x^2 the scale is
// sum x^3 q / sum x^2 q^2 = (64*8*127 + 16*4*69 + 1.69*1.3*25 + 0.16*0.4*1) / (64*127^2 + 16*69^2 + 1.69*25^2 + 0.16)
// = 69,494.99 / 1,109,488.41 = 0.0626370; fp16 spacing there is 2^-14 / 2 = 3.05e-5: 0.0626221 (2052 * 2^-15) is nearest.
TEST(GgmlCodec, Iq4NlFitsItsScaleToTheLevels) {
  const float d = 2052.0F / 32768.0F;
  const std::vector<float> values = coded("iq4_nl");
  const std::vector<float> levels{-127, 69, 25, 1, 1};
  for (std::size_t index = 0; index < levels.size(); ++index) EXPECT_EQ(values[index], levels[index] * d) << index;
}

}  // namespace
}  // namespace kvtide::kv
