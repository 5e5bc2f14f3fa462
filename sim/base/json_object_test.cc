#include "base/json_object.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace kvtide {
namespace {

TEST(JsonObject, MembersStandInTheOrderInWhichTheyWereAdded) {
  EXPECT_EQ(JsonObject().str(), "{}");
  EXPECT_EQ(JsonObject().text("b", "x\"y").number("a", 0.5).flag("c", false).raw("d", "[1]").str(),
            R"({"b": "x\"y", "a": 0.5, "c": false, "d": [1]})");
}

// JSON has neither NaN nor infinity (RFC 8259 section 6).
TEST(JsonObject, WhatIsNoNumberIsNull) {
  EXPECT_EQ(JsonObject().number("a", NAN).number("b", -INFINITY).str(), R"({"a": null, "b": null})");
  EXPECT_EQ(JsonObject().number_or_null("a", 0).number_or_null("b", 7).str(), R"({"a": null, "b": 7})");
}

// 2^64 - 1 needs 20 digits; a double would make 18446744073709552000 of it.
TEST(JsonObject, WholeNumbersKeepEveryDigit) {
  EXPECT_EQ(JsonObject().number("a", std::numeric_limits<std::uint64_t>::max()).str(),
            R"({"a": 18446744073709551615})");
}

TEST(JsonObject, ListsOfTextsAreQuoted) {
  EXPECT_EQ(json_texts({}), "[]");
  EXPECT_EQ(json_texts({"a", "b\n"}), R"(["a", "b\u000a"])");
  EXPECT_EQ(json_list({"1", "{}"}), "[1, {}]");
}

}  // namespace
}  // namespace kvtide
