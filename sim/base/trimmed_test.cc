#include "base/trimmed.h"

#include <gtest/gtest.h>

namespace kvtide {
namespace {

TEST(Trimmed, BlanksAndBreaksGoAtTheEndsAlone) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("ab"), "ab");
  EXPECT_EQ(trimmed(" \n\t"), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace kvtide
