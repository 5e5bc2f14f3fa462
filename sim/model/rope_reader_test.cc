#include "model/rope_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::HasSubstr;
using testing_support::error_of;
using testing_support::load_text;
using testing_support::small;

Rope rope_of(const std::string& type, const std::string& more) {
  return load_text(small(type, more)).rope;
}

TEST(RopeReader, BothSpellingsOfAScalingMeanTheSame) {
  for (const char* spelling : {R"("rope_theta": 500, "rope_scaling": {"rope_type": "linear", "factor": 4.0})",
                               R"("rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 4})",
                               R"("rope_parameters": {"rope_theta": 500, "rope_type": "linear", "factor": 4.0})"}) {
    const Rope rope = rope_of("llama", spelling);
    EXPECT_EQ(rope.theta, 500) << spelling;
    EXPECT_EQ(rope.scaling.type, "linear") << spelling;
    EXPECT_EQ(rope.scaling.factor, 4) << spelling;
  }
}

TEST(RopeReader, AbsentBaseIsTheClasses) {
  EXPECT_EQ(rope_of("llama", "").theta, 10000);
  EXPECT_EQ(rope_of("seed_oss", R"("rope_scaling": null)").theta, 10000);
  EXPECT_EQ(load_text(small("step3p7", R"("layer_types": ["full_attention", "full_attention", "full_attention",
                                         "full_attention"])"))
                .rope_scaling,
            "unstated");
}

TEST(RopeReader, MissingParametersOfAScalingAreErrors) {
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"type": "linear"})")),
              HasSubstr("rope_scaling.factor: missing"));
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                                         "high_freq_factor": 4})")),
              HasSubstr("original_max_position_embeddings"));
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"rope_type": "spiral"})")),
              HasSubstr("rope_scaling.rope_type"));
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"rope_type": "linear", "factor": 0})")), HasSubstr("factor"));
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"factor": 2})")), HasSubstr("without a type"));
  EXPECT_THAT(error_of(small("llama", R"("rope_scaling": {"type": "yarn", "factor": 2, "beta_quick": 1})")),
              HasSubstr("beta_quick: unknown key"));
}

// head_dim 16: 0.75 of it is 12, 0.334 is 5.344 -> 5.
TEST(RopeReader, PartOfAHeadMayRotate) {
  EXPECT_EQ(rope_of("llama", "").rotary_dim, 16);
  EXPECT_EQ(rope_of("phi3", R"("partial_rotary_factor": 0.75)").rotary_dim, 12);
  EXPECT_EQ(rope_of("gpt_neox", R"("rotary_pct": 0.25)").rotary_dim, 4);
  EXPECT_EQ(rope_of("minimax_m2", R"("rotary_dim": 8)").rotary_dim, 8);
  EXPECT_EQ(rope_of("llama", R"("partial_rotary_factor": 0.334)").rotary_dim, 5);
  EXPECT_EQ(rope_of("llama", R"("rope_parameters": {"partial_rotary_factor": 0.5})").rotary_dim, 8);
  EXPECT_THAT(error_of(small("llama", R"("rotary_dim": 17)")), HasSubstr("rotary_dim"));
}

// head_dim 16 has 8 pairs. Older files call it su or, in Phi-3, yarn.
TEST(RopeReader, LongRopeHasAFactorAPair) {
  const auto factors = [](const std::string& type, int count) {
    std::string list = "[1.0";
    for (int i = 1; i < count; ++i) list += ", 2.0";
    return R"("original_max_position_embeddings": 1024, "rope_scaling": {"type": ")" + type + R"(", "short_factor": )" +
           list + R"(], "long_factor": )" + list + "]}";
  };
  for (const char* word : {"longrope", "su", "yarn"}) {
    const Rope rope = rope_of("phi3", factors(word, 8));
    EXPECT_EQ(rope.scaling.type, "longrope") << word;
    EXPECT_EQ(rope.scaling.original_positions, 1024) << word;
    EXPECT_THAT(rope.scaling.long_factor, testing::ElementsAre(1, 2, 2, 2, 2, 2, 2, 2)) << word;
  }
  EXPECT_THAT(error_of(small("phi3", factors("longrope", 7))), HasSubstr("(8), got 7"));
}

TEST(RopeReader, LayersWithoutRotationHaveNone) {
  EXPECT_EQ(rope_of("falcon", R"("alibi": true)").rotary_dim, 0);
  EXPECT_EQ(rope_of("opt", "").rotary_dim, 0);
}

}  // namespace
}  // namespace kvtide
