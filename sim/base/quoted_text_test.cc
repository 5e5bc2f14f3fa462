#include "base/quoted_text.h"

#include <gtest/gtest.h>

namespace kvtide {
namespace {

TEST(QuotedText, OnlyWhatBothFormatsReserveIsEscaped) {
  EXPECT_EQ(quoted_text(""), R"("")");
  EXPECT_EQ(quoted_text("int4 + evict 50 %"), R"("int4 + evict 50 %")");
  EXPECT_EQ(quoted_text(R"(C:\"x")"), R"("C:\\\"x\"")");
  EXPECT_EQ(quoted_text("caf\xC3\xA9"), "\"caf\xC3\xA9\"");
}

// 0x1F is the last control character of ASCII's first block, 0x20 the space; 0x7F (DEL) is no printable character of
// YAML (1.2 section 5.1).
TEST(QuotedText, ControlCharactersAreEscapedUpToTheSpace) {
  EXPECT_EQ(quoted_text("\n"), R"("\u000a")");
  EXPECT_EQ(quoted_text("\x1F"), R"("\u001f")");
  EXPECT_EQ(quoted_text(" ~"), R"(" ~")");
  EXPECT_EQ(quoted_text("\x7F"), R"("\u007f")");
  EXPECT_EQ(quoted_text(std::string_view("\0a", 2)), R"("\u0000a")");
}

}  // namespace
}  // namespace kvtide
