#include "kv/compression/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/random.h"
#include "kv/cache_layout.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kBlock = 128;

Compression quantized(const std::string& format, std::int64_t block_size = kBlock) {
  Quantize stage;
  stage.k_format = stage.v_format = format;
  stage.k_rope = find_codec(format).k_rope;
  stage.v_axis = GroupAxis::token;
  Compression setting;
  setting.block_size = block_size;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {stage};
  return setting;
}

double mean_square_error(const std::string& format, bool is_key, std::int64_t group = 32) {
  // One head of 2,048 x 128 numbers: 262,144 samples.
  static const LayerTensors layer = testing::random_layer(1, 2048, kHeadDim, 11, 10000, true);
  Compression setting = quantized(format);
  std::get<Quantize>(setting.stages.front()).group = group;
  const LayerCache cache = compress_layer(setting, 2048, 1, kHeadDim, {}, &layer);
  const EntryTable& entries = *cache.heads.front().entries;
  const RowMatrix error = is_key ? RowMatrix(entries.k - layer.front().k_post) : RowMatrix(entries.v - layer.front().v);
  return error.cast<double>().squaredNorm() / static_cast<double>(error.size());
}

// Errors on a standard normal, from outside: the distortion of min/max integers, block floats and ggml formats as
// measured with 2 million samples by an independent program, the last digit given; Lloyd-Max from Max (1960), table I.
// With 262,144 samples the standard error of a mean squared error is below 0.5 %; 2 % is four of them.
TEST(Codec, GaussianErrorIsThePublishedOne) {
  const std::vector<std::pair<std::string, double>> expected{
      {"int4", 6.12e-3},    {"int2", 0.154},      {"nvfp4", 9.03e-3}, {"mxfp4", 1.32e-2},
      {"fp8_e4m3", 7.0e-4}, {"fp8_e5m2", 2.8e-3}, {"q8_0", 2.86e-5},  {"q4_0", 7.38e-3}};
  for (const auto& [format, error] : expected) {
    EXPECT_NEAR(mean_square_error(format, false), error, 0.02 * error) << format;
    EXPECT_NEAR(mean_square_error(format, true), error, 0.02 * error) << format << " keys";
  }
  for (const auto& [group, error] : std::vector<std::pair<std::int64_t, double>>{{64, 8.04e-3}, {128, 9.95e-3}}) {
    EXPECT_NEAR(mean_square_error("int4", false, group), error, 0.02 * error) << group;
    EXPECT_NEAR(mean_square_error("int4", true, group), error, 0.02 * error) << group << " keys";
  }
  // Keys of TurboQuant: a rotated Gaussian is Gaussian, but a row's length is stored apart, and channels of a row of given
  // length have thinner tails (kurtosis 3 * 128 / 130): a little below the scalar quantizer, never above.
  const std::vector<std::pair<std::string, double>> rotated{
      {"turboquant4", 0.009497}, {"turboquant3", 0.03454}, {"turboquant2", 0.1175}};
  for (const auto& [format, error] : rotated) {
    const double found = mean_square_error(format, true);
    EXPECT_LT(found, 1.005 * error) << format;
    EXPECT_GT(found, 0.96 * error) << format;
  }
}

// bfloat16 as measured by the same program. By hand: in a binade [2^e, 2^(e+1)) numbers are 2^(e-7) apart, their error
// 2^(2e-14) / 12; a standard normal has E[4^e] = 0.5428: 2.761e-6. Numbers of full precision are needed: fp16 ones, as
// above, lie on an eighth of that grid, which makes it 3 % more.
TEST(Codec, Bfloat16HasTheErrorOfEightSignificantBits) {
  RandomStream stream(3, "bfloat16");
  RowMatrix rows(2048, kHeadDim);
  for (std::int64_t element = 0; element < rows.size(); ++element) {
    rows.data()[element] = static_cast<float>(stream.normal());
  }
  const RowMatrix exact = rows;
  const Codec& codec = find_codec("bf16");
  const Quantize stage;
  codec.code({&codec, &stage, false, kHeadDim}, {&rows, {}, {}, nullptr});
  EXPECT_NEAR((rows - exact).cast<double>().squaredNorm() / static_cast<double>(rows.size()), 2.76e-6, 0.02 * 2.76e-6);
}

// Bits an element at head_dim 128 in blocks of 128, by hand:
//   per token: 8 + 32/128, 4 + 32/128; ggml: block bytes * 8 / 32; groups of 32: bits + 32/32; NVFP4 4 + 8/16; MXFP 4 and
//   8 + 8/32; TurboQuant K (64 + 2) * 8 / 128 = 4.125, V (64 + 4) -> 4.25, at 3 bits 50 and 52 B; PolarQuant 62/16;
//   QJL (384 + 32)/128 + 64/(32 * 128) = 3.265625; KVQuant 4 + 164 outliers * 32 bits / 16384 = 4.3203, V + 0.25;
//   ZipCache (36 * 128 + 77 * 32) * 8 / 16384 = 3.453, and one norm a channel over 2,048 rows: 0.0078;
//   GEAR 4 + 1 + 64/128 + 328 * 48 / 16384 + 4 * 16 / 2048 = 6.4922; SKVQ 34 B, 28 B; CQ 8/8.
TEST(Codec, StoredBitsCountScalesAndTables) {
  struct Expected {
    const char* name;
    double k_bits;
    double v_bits;
  };
  const std::vector<Expected> table{{"fp16", 16, 16},
                                    {"bf16", 16, 16},
                                    {"fp8_e4m3", 8, 8},
                                    {"int8_per_token_head", 8.25, 8.25},
                                    {"int4_per_token_head", 4.25, 4.25},
                                    {"fp8_per_token_head", 8.25, 8.25},
                                    {"qserve_kv4", 4.25, 4.25},
                                    {"q8_0", 8.5, 8.5},
                                    {"q5_1", 6, 6},
                                    {"q5_0", 5.5, 5.5},
                                    {"q4_1", 5, 5},
                                    {"q4_0", 4.5, 4.5},
                                    {"iq4_nl", 4.5, 4.5},
                                    {"int8", 9, 9},
                                    {"int4", 5, 5},
                                    {"int2", 3, 3},
                                    {"nvfp4", 4.5, 4.5},
                                    {"mxfp4", 4.25, 4.25},
                                    {"mxfp8", 8.25, 8.25},
                                    {"turboquant4", 4.125, 4.25},
                                    {"turboquant3", 3.125, 3.25},
                                    {"polarquant", 3.875, 3.875},
                                    {"qjl", 3.265625, 3.265625},
                                    {"kvquant4", 4.3203125, 4.5703125},
                                    {"zipcache4_2", 3.4609375, 3.4609375},
                                    {"gear4", 6.4921875, 6.4921875},
                                    {"skvq2", 2.125, 2.125},
                                    {"skvq1.5", 1.75, 1.75},
                                    {"cq8c8b", 1, 1}};
  const Quantize stage;
  for (const Expected& row : table) {
    const Codec& codec = find_codec(row.name);
    EXPECT_EQ(stored_bits({&codec, &stage, true, kHeadDim}, kBlock, 2048), row.k_bits) << row.name;
    EXPECT_EQ(stored_bits({&codec, &stage, false, kHeadDim}, kBlock, 2048), row.v_bits) << row.name;
  }
}

// Rows of a low rank may end inside a byte. 33 codes of 4 bits: 132 bits, 17 B; one of 2 bits: 1 B; 4 of them fill it. GEAR adds 4
// fp16 coefficients, 8 B.
TEST(Codec, RowsOfPackedCodesEndWithAWholeByte) {
  const Quantize stage;
  const auto row_bytes = [&stage](const char* name, std::int64_t columns) {
    const Codec& codec = find_codec(name);
    return codec.row_bytes({&codec, &stage, true, columns});
  };
  EXPECT_EQ(row_bytes("int4", 33), 17u);
  EXPECT_EQ(row_bytes("int4", 34), 17u);
  EXPECT_EQ(row_bytes("int2", 1), 1u);
  EXPECT_EQ(row_bytes("int2", 4), 1u);
  EXPECT_EQ(row_bytes("int2", 5), 2u);
  EXPECT_EQ(row_bytes("gear4", 33), 25u);
  EXPECT_EQ(row_bytes("gear2", 3), 9u);
}

// One state, two observers: what the pages hold is what stored_bits() says, 2,048 positions in whole pages.
TEST(Codec, PagesHoldTheStoredBits) {
  for (const Codec& codec : codecs()) {
    const Compression setting = quantized(std::string(codec.name));
    const Quantize& stage = std::get<Quantize>(setting.stages.front());
    const LayerCache cache = compress_layer(setting, 2048, 1, kHeadDim, {}, nullptr);
    const double bits = stored_bits({&codec, &stage, true, kHeadDim}, kBlock, 2048) +
                        stored_bits({&codec, &stage, false, kHeadDim}, kBlock, 2048);
    const LayerBytes bytes = layer_bytes(layer_pools(cache, 16, CacheLayout::per_head));
    EXPECT_DOUBLE_EQ(static_cast<double>(bytes.total), bits * 2048 * kHeadDim / 8) << codec.name;
  }
}

TEST(Codec, DecisionsWithAndWithoutNumbersAreTheSame) {
  const LayerTensors layer = testing::random_layer(1, 200, 64, 3, 10000, true);
  for (const Codec& codec : codecs()) {
    const Compression setting = quantized(std::string(codec.name), 32);
    const LayerCache with = compress_layer(setting, 200, 1, 64, {}, &layer);
    const LayerCache without = compress_layer(setting, 200, 1, 64, {}, nullptr);
    EXPECT_EQ(layer_bytes(layer_pools(with, 16, CacheLayout::per_head)).total,
              layer_bytes(layer_pools(without, 16, CacheLayout::per_head)).total)
        << codec.name;
    EXPECT_EQ(with.heads.front().segments.size(), without.heads.front().segments.size()) << codec.name;
  }
}

TEST(Codec, EveryCodecIsDeterministicAndFinite) {
  const LayerTensors layer = testing::random_layer(2, 160, 64, 5, 10000, true);
  for (const Codec& codec : codecs()) {
    const Compression setting = quantized(std::string(codec.name), 32);
    const LayerCache first = compress_layer(setting, 160, 2, 64, {}, &layer);
    const LayerCache again = compress_layer(setting, 160, 2, 64, {}, &layer);
    for (std::size_t head = 0; head < 2; ++head) {
      EXPECT_TRUE(first.heads[head].entries->k.allFinite()) << codec.name;
      EXPECT_EQ(first.heads[head].entries->k, again.heads[head].entries->k) << codec.name;
      EXPECT_EQ(first.heads[head].entries->v, again.heads[head].entries->v) << codec.name;
    }
  }
}

// Rows of zeros and rows of one repeated number have no range; whatever the format, zero stays zero and nothing is NaN.
TEST(Codec, FlatRowsSurvive) {
  LayerTensors layer = testing::random_layer(1, 64, 64, 6, 0, true);
  layer.front().v.topRows(32).setZero();
  layer.front().v.bottomRows(32).setConstant(0.25F);
  for (const Codec& codec : codecs()) {
    const LayerCache cache = compress_layer(quantized(std::string(codec.name), 32), 64, 1, 64, {}, &layer);
    EXPECT_TRUE(cache.heads.front().entries->v.allFinite()) << codec.name;
  }
}

// Rows of 1, 2 and 2.5: the first and the third take the second, the only one of odd order; it takes the nearer of the two.
TEST(Codec, CoupledRowsTakeTheNearestOfTheOtherOrder) {
  RowMatrix values(3, 8);
  values << RowMatrix::Constant(1, 8, 1.0F), RowMatrix::Constant(1, 8, 2.0F), RowMatrix::Constant(1, 8, 2.5F);
  const Codec& coupled = find_codec("cq8c8b");
  const Quantize stage{.k_format = "cq8c8b"};
  coupled.code({&coupled, &stage, true, 8}, {&values, {}, {}, nullptr});
  EXPECT_EQ(values.col(0), (Eigen::Vector3f(2.0F, 2.5F, 2.0F)));
  EXPECT_EQ(values.col(7), values.col(0));
}

// Four levels from 0 to the largest number, 3.75, are 1.25 apart: 1 reads 1.25, 2 reads 2.5, errors of 7 / 16 + 7 / 4. Clipped to
// 80 % they are 1 apart: only 3.75 is off, by 0.75, squared 9 / 16. To 90 %, 1.125 apart: 7 / 64 + 7 / 16 + 9 / 64 = 11 / 16.
TEST(Codec, ClippedGroupsTakeTheRangeOfLeastSquaredError) {
  RowMatrix values(1, 16);
  values << 0.0F, 3.75F, RowMatrix::Constant(1, 7, 1.0F), RowMatrix::Constant(1, 7, 2.0F);
  RowMatrix expected = values;
  expected(0, 1) = 3.0F;
  const Codec& clipped = find_codec("skvq2");
  const Quantize stage{.k_format = "skvq2"};
  clipped.code({&clipped, &stage, true, 16}, {&values, {}, {}, nullptr});
  EXPECT_EQ(values, expected);
}

// Rotations and angles keep lengths; the radius of 16 channels is a number of 16 bits: from 1 on they are 1 / 1024 apart.
TEST(Codec, PolarRadiusIsRoundedToHalfPrecision) {
  const Codec& polar = find_codec("polarquant");
  const Quantize stage{.k_format = "polarquant"};
  for (const auto& [length, stored] : {std::pair{1.0004F, 1.0F}, std::pair{1.0006F, 1.0F + 1.0F / 1024}}) {
    RowMatrix values(1, 16);
    for (std::int64_t channel = 0; channel < 16; ++channel) values(0, channel) = channel % 3 == 0 ? 1.0F : -0.5F;
    values *= length / values.norm();
    polar.code({&polar, &stage, true, 16}, {&values, {}, {}, nullptr});
    EXPECT_NEAR(values.norm(), stored, 1e-6F);
  }
}

// Field case C10: head_dim 80 with blocks of 32 channels is refused with both numbers.
TEST(Codec, BlocksThatDoNotDivideTheHeadAreRefused) {
  for (const char* format : {"q4_0", "mxfp4"}) {
    const auto problems = contradictions(quantized(format), 80);
    ASSERT_FALSE(problems.empty()) << format;
    EXPECT_THAT(problems.front(), HasSubstr("32"));
    EXPECT_THAT(problems.front(), HasSubstr("80"));
  }
  EXPECT_TRUE(contradictions(quantized("nvfp4"), 80).empty());
  EXPECT_FALSE(contradictions(quantized("turboquant4"), 80).empty());
}

TEST(Codec, UnknownNameNamesTheNearest) {
  try {
    (void)find_codec("nvpf4");
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean nvfp4"));
  }
}

// vLLM's --kv-cache-dtype fp8 is E4M3 (its documentation, "Quantized KV Cache").
TEST(Codec, ServingStacksSayFp8ForE4m3) {
  EXPECT_EQ(find_codec("fp8").name, "fp8_e4m3");
  EXPECT_THROW((void)find_codec("fp"), InputError);
}

TEST(Codec, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Codec& codec : codecs()) EXPECT_TRUE(names.insert(codec.name).second) << codec.name;
}

// Keys stored before RoPE: a key that the format holds exactly comes back as the rotated key. Values 0..15 in a channel
// are exact at 4 bits with a group of 16 (scale 1).
TEST(Quantize, KeysStoredBeforeRopeAreRotatedAsTheyAreRead) {
  LayerTensors layer = testing::random_layer(1, 16, 4, 1);
  HeadTensors& head = layer.front();
  for (std::int64_t position = 0; position < 16; ++position)
    head.k_pre.row(position).setConstant(static_cast<float>(position));
  head.k_post = head.k_pre;
  for (std::int64_t position = 0; position < 16; ++position) {
    head.rope.rotate({head.k_post.row(position).data(), 4}, static_cast<double>(position));
  }
  Compression setting = quantized("int4", 16);
  auto& stage = std::get<Quantize>(setting.stages.front());
  stage.group = 16;
  stage.v_axis = GroupAxis::channel;
  stage.k_rope = RopeState::pre;
  const LayerCache before = compress_layer(setting, 16, 1, 4, {}, &layer);
  EXPECT_TRUE(before.heads.front().entries->k.isApprox(head.k_post, 1e-5F));
  stage.k_rope = RopeState::post;  // rotated keys are no whole numbers: not exact
  const LayerCache after = compress_layer(setting, 16, 1, 4, {}, &layer);
  EXPECT_FALSE(after.heads.front().entries->k.isApprox(head.k_post, 1e-3F));
}

TEST(Quantize, KeysAndValuesMayHaveTheirOwnFormats) {
  const LayerTensors layer = testing::random_layer(1, 64, 64, 2);
  Compression setting = quantized("q8_0", 32);
  std::get<Quantize>(setting.stages.front()).v_format = "fp16";
  const LayerCache cache = compress_layer(setting, 64, 1, 64, {}, &layer);
  EXPECT_EQ(cache.heads.front().entries->v, layer.front().v);
  EXPECT_NE(cache.heads.front().entries->k, layer.front().k_post);
  const HeadPools pools = packed_pools(cache.heads.front(), 16);
  EXPECT_EQ(pools.k.front().form.name(), "q8_0");
  EXPECT_EQ(pools.v.front().form.name(), "fp16");
}

}  // namespace
}  // namespace kvtide::kv
