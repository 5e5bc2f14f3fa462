#include "experiment/include.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

namespace fs = std::filesystem;
using config::Document;
using testing::HasSubstr;

class Include : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("include_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "sub");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Document resolve(const std::string& yaml, std::string* texts = nullptr) const {
    Document document = Document::parse(yaml, "main.yaml");
    const std::string read = resolve_includes(document, folder_.string());
    if (texts != nullptr) *texts = read;
    return document;
  }
  std::string error_of(const std::string& yaml) const {
    try {
      (void)resolve(yaml);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }
  fs::path folder_;
};

TEST_F(Include, MappingsMergeAndTheIncludingFileWins) {
  write("base.yaml", "a: 1\nloss: {span: 8, heads: mean}\nlist: [1, 2]\n");
  const Document document = resolve("include: base.yaml\nloss: {heads: reader}\nlist: [3]\n");
  EXPECT_EQ(document.root().integer("a"), 1);
  EXPECT_EQ(document.root().at("loss").text(), "{heads: reader, span: 8}");
  EXPECT_EQ(document.root().at("list").text(), "[3]");
}

TEST_F(Include, OfSeveralFilesTheLaterWins) {
  write("one.yaml", "a: 1\nb: 1\n");
  write("two.yaml", "a: 2\n");
  const Document document = resolve("include: [one.yaml, two.yaml]\n");
  EXPECT_EQ(document.root().integer("a"), 2);
  EXPECT_EQ(document.root().integer("b"), 1);
}

TEST_F(Include, AnIncludedFileStartsItsOwnIncludesInItsOwnFolder) {
  write("sub/middle.yaml", "include: inner.yaml\nb: 2\n");
  write("sub/inner.yaml", "c: 3\n");
  std::string texts;
  const Document document = resolve("include: sub/middle.yaml\n", &texts);
  EXPECT_EQ(document.root().integer("c"), 3);
  EXPECT_EQ(texts, "# included: sub/middle.yaml\ninclude: inner.yaml\nb: 2\n# included: inner.yaml\nc: 3\n");
}

TEST_F(Include, AMistakeIsReportedWhereItWasWritten) {
  write("base.yaml", "\na: banana\n");
  const Document document = resolve("include: base.yaml\n");
  (void)document.root().integer("a");
  ASSERT_EQ(document.errors().size(), 1u);
  EXPECT_THAT(document.errors()[0], HasSubstr("base.yaml:2:4: a: expected an integer, got \"banana\""));
}

TEST_F(Include, RefusesCyclesMissingFilesAndWrongTypes) {
  write("a.yaml", "include: b.yaml\n");
  write("b.yaml", "include: a.yaml\n");
  write("self.yaml", "include: self.yaml\n");
  write("list.yaml", "[1]\n");
  EXPECT_THAT(error_of("include: a.yaml\n"), HasSubstr("a.yaml includes itself"));
  EXPECT_THAT(error_of("include: self.yaml\n"), HasSubstr("self.yaml includes itself"));
  EXPECT_THAT(error_of("x: 1\ninclude: none.yaml\n"), HasSubstr("main.yaml:2:10: include: "));
  EXPECT_THAT(error_of("include: none.yaml\n"), HasSubstr("no such file"));
  EXPECT_THAT(error_of("include: {a: 1}\n"), HasSubstr("expected a file name or a list of them"));
  EXPECT_THAT(error_of("include: list.yaml\n"), HasSubstr("expected a mapping"));
}

// 2^7 = 128 inclusions from 7 small files.
TEST_F(Include, ManyInclusionsOfTheSameFilesAreRefusedNotFollowed) {
  for (int i = 0; i < 7; ++i) {
    write(fmt::format("n{}.yaml", i), fmt::format("include: [n{0}.yaml, n{0}.yaml]\n", i + 1));
  }
  write("n7.yaml", "a: 1\n");
  EXPECT_THAT(error_of("include: n0.yaml\n"), HasSubstr("64 in all"));
}

}  // namespace
}  // namespace kvtide::experiment
