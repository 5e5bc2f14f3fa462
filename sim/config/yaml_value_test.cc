#include "config/yaml_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::string& yaml) {
  try {
    (void)Document::parse(yaml, "a.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string integer_error(const std::string& scalar, const IntegerRule& rule = {}) {
  const Document document = Document::parse("x: " + scalar, "a.yaml");
  (void)document.root().integer("x", rule);
  return document.errors().empty() ? "" : document.errors().front();
}

// The form that interface.md fixes: file:line:column: path: expected ..., got ...
TEST(YamlValue, MessageNamesPlacePathAllowedAndFound) {
  const Document document = Document::parse("name: x\ncompression:\n  block_size: banana\n", "demo.yaml");
  (void)document.root().at("compression").integer("block_size", {.fallback = 128, .min = 1, .max = 65536});
  EXPECT_THAT(document.errors(),
              ElementsAre("demo.yaml:3:15: compression.block_size: expected an integer in 1..65536, got \"banana\""));
}

TEST(YamlValue, IntegerRangeHoldsOnBothSides) {
  const IntegerRule rule{.min = 1, .max = 8};
  EXPECT_THAT(integer_error("0", rule), HasSubstr("expected an integer in 1..8, got 0"));
  EXPECT_EQ(integer_error("1", rule), "");
  EXPECT_EQ(integer_error("8", rule), "");
  EXPECT_THAT(integer_error("9", rule), HasSubstr("got 9"));
}

// yaml-cpp alone reads 010 as 8; JSON libraries read true as 1 and 3.7 as 3.
TEST(YamlValue, OnlyPlainDecimalIntegersAreIntegers) {
  for (const char* wrong : {"010", "0x10", "3.7", "1e3", "true", "yes", "\"128\"", "64k", "~", "[1]", "{a: 1}", "+5",
                            "1_000", "9223372036854775808"}) {
    EXPECT_NE(integer_error(wrong), "") << wrong;
  }
  for (const char* right : {"0", "-1", "9223372036854775807", "-9223372036854775808"}) {
    EXPECT_EQ(integer_error(right), "") << right;
  }
}

TEST(YamlValue, AbsentKeyTakesFallbackOrIsReportedMissing) {
  const Document document = Document::parse("a: 1", "a.yaml");
  EXPECT_EQ(document.root().integer("b", {.fallback = 7}), 7);
  EXPECT_TRUE(document.errors().empty());
  EXPECT_EQ(document.root().integer("c", {.min = 3, .max = 9}), 3);  // in range, so that reading can go on
  EXPECT_THAT(document.errors(), ElementsAre("a.yaml:1:1: c: missing; expected an integer in 3..9"));
}

TEST(YamlValue, OpenLowerBoundExcludesItselfAndUpperBoundIsIncluded) {
  const Document document = Document::parse("a: 0\nb: 1\nc: 1.0001\nd: 1e-6\ne: .nan\nf: .inf\ng: 1e999", "a.yaml");
  const NumberRule keep{.min = 0, .max = 1, .min_is_open = true};
  (void)document.root().number("a", keep);
  EXPECT_EQ(document.root().number("b", keep), 1.0);
  (void)document.root().number("c", keep);
  EXPECT_EQ(document.root().number("d", keep), 1e-6);
  (void)document.root().number("e");
  (void)document.root().number("f");
  (void)document.root().number("g");
  EXPECT_EQ(document.errors().size(), 5u);  // a, c, e, f, g
  EXPECT_EQ(document.errors().front(), "a.yaml:1:4: a: expected a number in (0, 1], got 0");
}

TEST(YamlValue, APointNeedsDigitsBehindItOnly) {
  const Document document =
      Document::parse("a: .5\nb: -.5e1\nc: .5 ms\nd: .\ne: .e1\nf: 5.\ng: ..5\nh: \".5\"", "a.yaml");
  EXPECT_EQ(document.root().number("a"), 0.5);
  EXPECT_EQ(document.root().number("b"), -5);
  EXPECT_EQ(document.root().quantity("c", {.dimension = Dimension::time}), 0.5e-3);
  EXPECT_TRUE(document.errors().empty());
  (void)document.root().integer("a");
  for (const char* key : {"d", "e", "f", "g", "h"}) (void)document.root().number(key);
  EXPECT_EQ(document.errors().size(), 6u);
}

TEST(YamlValue, DimensionedValuesNeedAUnit) {
  const Document document = Document::parse("t: 45 ns\nbare: 45\nwrong: 45 GB\nzero: 0\nover: 3 s", "a.yaml");
  EXPECT_DOUBLE_EQ(document.root().quantity("t", {.dimension = Dimension::time}), 45e-9);
  EXPECT_EQ(document.root().quantity("zero", {.dimension = Dimension::time}), 0.0);
  EXPECT_TRUE(document.errors().empty());
  (void)document.root().quantity("bare", {.dimension = Dimension::time});
  (void)document.root().quantity("wrong", {.dimension = Dimension::time});
  (void)document.root().quantity("over", {.dimension = Dimension::time, .max = 2});
  ASSERT_EQ(document.errors().size(), 3u);
  EXPECT_THAT(document.errors()[0], HasSubstr("units s, ms, us, ns, ps, got 45"));
  EXPECT_THAT(document.errors()[2], HasSubstr("0..2"));
}

TEST(YamlValue, BooleansAreTrueAndFalseOnly) {
  const Document document = Document::parse("a: true\nb: false\nc: yes\nd: 1\ne: \"true\"", "a.yaml");
  EXPECT_TRUE(document.root().boolean("a"));
  EXPECT_FALSE(document.root().boolean("b"));
  for (const char* key : {"c", "d", "e"}) (void)document.root().boolean(key);
  EXPECT_EQ(document.errors().size(), 3u);
}

TEST(YamlValue, ChoiceNamesTheNearest) {
  const Document document = Document::parse("rope: pots", "a.yaml");
  EXPECT_EQ(document.root().choice("rope", {"pre", "post"}, "post"), "post");
  EXPECT_THAT(document.errors(),
              ElementsAre("a.yaml:1:7: rope: expected one of pre, post, got \"pots\"; did you mean post?"));
}

TEST(YamlValue, UnknownKeysAreFoundAtEveryLevelAndNameTheNearest) {
  const Document document = Document::parse("a:\n  block_sise: 1\n  list: [{b: 1, c: 2}]\nzzzzzzzz: 1", "a.yaml");
  const Value a = document.root().at("a");
  (void)a.integer("block_size", {.fallback = 1});
  for (const Value& item : a.at("list").items()) (void)item.integer("b");
  document.root().finish();
  EXPECT_THAT(document.errors(), ElementsAre("a.yaml:2:3: a.block_sise: unknown key; did you mean block_size?",
                                             HasSubstr("a.yaml:3:17: a.list[0].c: unknown key"),
                                             HasSubstr("a.yaml:4:1: zzzzzzzz: unknown key")));
}

TEST(YamlValue, AcceptedPartsAreSomebodyElsesToCheck) {
  const Document document = Document::parse("a: {b: {c: 1}}", "a.yaml");
  document.root().at("a").accept_all();
  document.root().finish();
  EXPECT_TRUE(document.errors().empty());
}

TEST(YamlValue, AllErrorsOfAFileAreReportedTogether) {
  const Document document = Document::parse("a: x\nb: y\nc: 1", "a.yaml");
  (void)document.root().integer("a");
  (void)document.root().integer("b");
  document.root().finish();
  try {
    document.throw_if_errors();
    FAIL() << "expected an InputError";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  }
}

TEST(YamlValue, WhatDependsOnAWrongNodeStaysQuiet) {
  const Document document = Document::parse("compression: 5", "a.yaml");
  const Value compression = document.root().at("compression");
  (void)compression.integer("block_size");  // required, but the mapping itself is the mistake
  (void)compression.integer("other");
  document.root().finish();
  EXPECT_THAT(document.errors(), ElementsAre("a.yaml:1:14: compression: expected a mapping, got 5"));
}

TEST(YamlDocument, DuplicateKeysAreAllReportedWithBothPlaces) {
  const std::string message = message_of("a: 1\na: 2\nb: {c: 1, c: 2}\n");
  EXPECT_THAT(message, HasSubstr("a.yaml:2:1: the key \"a\" is given twice (first at a.yaml:1:1)"));
  EXPECT_THAT(message, HasSubstr("a.yaml:3:11: the key \"c\" is given twice (first at a.yaml:3:5)"));
}

TEST(YamlDocument, JsonIsReadWithItsPlaces) {
  const Document document = Document::parse("{\"a\": 1,\n \"b\": {\"c\": [1, 2.5, \"x\", null, true]}}", "c.json");
  const Value list = document.root().at("b").at("c");
  ASSERT_EQ(list.items().size(), 5u);
  EXPECT_EQ(list.items()[1].as_number(), 2.5);
  EXPECT_TRUE(list.items()[3].is_null());
  EXPECT_EQ(list.items()[2].where(), "c.json:2:22");
}

TEST(YamlDocument, EmptyTextIsAnEmptyMapping) {
  const Document document = Document::parse("# only a comment\n", "a.yaml");
  EXPECT_TRUE(document.root().is_null());
  EXPECT_EQ(document.root().integer("a", {.fallback = 3}), 3);
}

// Ten levels of ten aliases denote 10^10 values in under 500 bytes.
TEST(YamlDocument, MultiplyingAliasesAreRefused) {
  std::string bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    bomb += "l" + std::to_string(level) + ": &l" + std::to_string(level) + " [";
    for (int i = 0; i < 10; ++i) bomb += (i > 0 ? ", *l" : "*l") + std::to_string(level - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(message_of(bomb), HasSubstr("more than 200000 values"));
}

TEST(YamlDocument, OneLongTextAliasedOftenIsRefused) {
  std::string bomb = "a: &x " + std::string(1'000'000, 'y') + "\nb:\n";
  for (int i = 0; i < 100; ++i) bomb += "- *x\n";  // 100 MB of text
  EXPECT_THAT(message_of(bomb), HasSubstr("more than 200000 values"));
}

TEST(YamlDocument, AliasesAreFollowedAndUnknownOrCyclicOnesRefused) {
  const Document document = Document::parse("a: &x {k: 4}\nb: *x", "a.yaml");
  EXPECT_EQ(document.root().at("b").integer("k"), 4);
  EXPECT_NE(message_of("a: *nowhere"), "");
  EXPECT_NE(message_of("a: &x [*x]"), "");
}

TEST(YamlDocument, NestingBeyondTheLimitIsRefused) {
  EXPECT_EQ(message_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_THAT(message_of(std::string(65, '[') + std::string(65, ']')), HasSubstr("deeper than 64"));
  EXPECT_NE(message_of(std::string(200'000, '[')), "");
}

TEST(YamlDocument, OversizedMissingAndMalformedFilesAreInputErrors) {
  EXPECT_EQ(message_of("#" + std::string((std::size_t{4} << 20) - 1, 'x')), "");
  EXPECT_THAT(message_of("#" + std::string(std::size_t{4} << 20, 'x')), HasSubstr("4194304"));
  EXPECT_THROW((void)Document::load("/nonexistent/x.yaml"), InputError);
  EXPECT_THROW((void)Document::load("/"), InputError);
  EXPECT_THAT(message_of("a: [1, 2"), HasSubstr("not YAML"));
  EXPECT_THAT(message_of(std::string("a: 1\0", 5)), HasSubstr("NUL"));
  EXPECT_THAT(message_of("a: 1\n---\nb: 2"), HasSubstr("more than one document"));
  EXPECT_THAT(message_of("[1, 2]: 3"), HasSubstr("key must be text"));
  EXPECT_THAT(message_of("? \n: 3"), HasSubstr("key must be text"));
}

TEST(YamlDocument, SetReplacesAddsAndReachesIntoLists) {
  Document document = Document::parse("a: {b: 1}\nstages: [{evict: {keep: 1}}, {x: 1}]", "a.yaml");
  document.set("a.b", "2");
  document.set("new.deep.key", "[1, 2]");
  document.set("stages[0].evict.keep", "5");
  document.set("stages.1.x", "6");
  EXPECT_EQ(document.root().at("a").integer("b"), 2);
  EXPECT_EQ(document.root().at("new").at("deep").at("key").items().size(), 2u);
  EXPECT_EQ(document.root().at("stages").items()[0].at("evict").integer("keep"), 5);
  EXPECT_EQ(document.root().at("stages").items()[1].integer("x"), 6);
  EXPECT_THROW(document.set("a.b.c", "1"), InputError);        // below a scalar
  EXPECT_THROW(document.set("stages[2].x", "1"), InputError);  // the list has 2
  EXPECT_THROW(document.set("a..b", "1"), InputError);
  EXPECT_THROW(document.set("", "1"), InputError);
  EXPECT_THROW(document.set("a", "[1"), InputError);
}

TEST(YamlDocument, ErrorInASetValueNamesTheFlag) {
  Document document = Document::parse("a: 1", "a.yaml");
  document.set("a", "x");
  (void)document.root().integer("a");
  EXPECT_THAT(document.errors(), ElementsAre("--set a: a: expected an integer, got \"x\""));
}

TEST(YamlDocument, CloneIsIndependentAndUnmarked) {
  const Document original = Document::parse("a: 1\nb: {c: 2}", "a.yaml");
  (void)original.root().integer("a");
  (void)original.root().at("b").integer("c");
  Document copy = original.clone();
  copy.set("a", original.root().at("b"));
  EXPECT_EQ(original.root().integer("a"), 1);
  EXPECT_EQ(copy.root().at("a").integer("c"), 2);
  copy.root().finish();
  EXPECT_THAT(copy.errors(), ElementsAre(HasSubstr("b: unknown key")));  // asked of the original only
}

TEST(YamlValue, FlowTextParsesBackToTheSameNode) {
  const std::string yaml =
      "v: {a: [1, -2.5, \"1\", 'x: y', \"q\\\"\\\\\"], \"k:1\": ~, b: true, c: plain text, d: \"\"}";
  const std::string once = Document::parse(yaml, "a.yaml").root().at("v").text();
  const std::string twice = Document::parse("v: " + once, "a.yaml").root().at("v").text();
  EXPECT_EQ(once, twice);
  EXPECT_EQ(once, R"({a: [1, -2.5, "1", "x: y", "q\"\\"], "k:1": null, b: true, c: plain text, d: ""})");
}

// Whatever bytes come, the reader answers or refuses: 3,000 seeded mutations of a valid file.
TEST(YamlDocument, MutatedFilesNeverCrash) {
  const std::string seed_text =
      "name: x\ncompression: &c\n  stages:\n    - evict: {scorer: \"a\", keep_ratio: 0.5}\n    - *d\nsweep: {a.b: [1, "
      "2]}\n";
  RandomStream random(1, "yaml_mutation");
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = seed_text;
    for (std::uint64_t edit = 0; edit <= random.below(4); ++edit) {
      const std::size_t at = random.below(text.size());
      const std::string characters = "{}[]:,-&*!|>'\"%@`#?\n\t ~\\\x01\xff" + std::string(1, '\0');
      text[at] = characters[random.below(characters.size())];
    }
    try {
      const Document document = Document::parse(text, "a.yaml");
      (void)document.root().text();
      document.root().finish();
    } catch (const InputError&) {
      // refused: fine
    }
  }
}

// What the reader of a file asks is the file's format.
TEST(Document, RemembersWhatItsReaderAsked) {
  Document document = Document::parse("a: 3\nlist: [{b: x}, {b: y}]\n", "f.yaml");
  document.record_asked();
  (void)document.root().integer("a", {.fallback = 4, .min = 1});
  for (const Value& element : document.root().at("list").items()) (void)element.choice("b", {"x", "y"});
  (void)document.root().boolean("absent", false);
  std::vector<std::string> paths;
  for (const AskedKey& key : document.asked()) paths.push_back(key.path);
  EXPECT_THAT(paths, testing::ElementsAre("", "a", "list", "list[]", "list[].b", "absent"));
  const AskedKey& a = document.asked()[1];
  EXPECT_EQ(a.kind, AskedKey::Kind::integer);
  EXPECT_EQ(a.fallback, "4");
  EXPECT_EQ(a.min, 1.0);
  EXPECT_FALSE(a.max.has_value());
  EXPECT_THAT(document.asked()[4].choices, testing::ElementsAre("x", "y"));
}

TEST(Document, RemembersNothingUnasked) {
  const Document document = Document::parse("a: 3\n", "f.yaml");
  (void)document.root().integer("a");
  EXPECT_TRUE(document.asked().empty());
}

}  // namespace
}  // namespace kvtide::config
