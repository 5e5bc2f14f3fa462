#include "planning/text_spread.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::planning {
namespace {

TEST(TextSpread, IsThePercentilesAgainstTheMedian) {
  const TextSpread spread =
      parse_text_spread("# nats\nfigure,texts,low,median,high\nworst,20,8,9,9\nmean,20,1,2,3\n", "f");
  EXPECT_EQ(spread.texts, 20);
  EXPECT_DOUBLE_EQ(spread.low, 0.5);
  EXPECT_DOUBLE_EQ(spread.high, 1.5);
}

TEST(TextSpread, LayersAreReadWhereTheyStand) {
  const std::string texts = "figure,texts,low,median,high\nmean,20,1,2,3\n";
  EXPECT_EQ(parse_text_spread(texts, "f").layers, 0);
  const TextSpread spread = parse_text_spread(texts + "lost_by_layer,8,0,0.1,0.5\n", "f");
  EXPECT_EQ(spread.layers, 8);
  EXPECT_DOUBLE_EQ(spread.layer_low, 0);
  EXPECT_DOUBLE_EQ(spread.layer_high, 0.5);
}

TEST(TextSpread, ADamagedFileIsSaidSo) {
  EXPECT_THROW((void)parse_text_spread("", "f"), InputError);
  EXPECT_THROW((void)parse_text_spread("figure,texts\nmean,20\n", "f"), InputError);
  EXPECT_THROW((void)parse_text_spread("figure,texts,low,median,high\nmean,20,1,0,3\n", "f"), InputError);
}

TEST(TextSpread, TheShippedFileReads) {
  const auto spread = measured_text_spread();
  ASSERT_TRUE(spread);
  EXPECT_LT(spread->low, 1);
  EXPECT_GT(spread->high, 1);
  EXPECT_GT(spread->layers, 0);
  EXPECT_NE(text_spread_sentence().find("between 20 texts"), std::string::npos);
}

}  // namespace
}  // namespace kvtide::planning
