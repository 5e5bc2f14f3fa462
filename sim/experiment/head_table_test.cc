#include "experiment/head_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HeadTableFile : public ::testing::Test {
 protected:
  ~HeadTableFile() override { std::filesystem::remove(path_); }
  [[nodiscard]] kv::HeadTable read(const std::string& text) const {
    std::ofstream(path_) << text;
    return read_head_table(path_);
  }
  [[nodiscard]] std::string error_of(const std::string& text) const {
    try {
      (void)read(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  std::string path_ = ::testing::TempDir() + "head_table_test.json";
};

// The three layouts of one table; a head's score is the mean of its list.
TEST_F(HeadTableFile, ThreeLayoutsSayTheSame) {
  const kv::HeadTable expected{2, 2, {0.25, 1, 0, 0.5}};
  EXPECT_EQ(read(R"({"0-0": [0.25, 0.25], "0-1": 1, "1-1": [1.0, 0, 0.5], "1-0": [0]})"), expected);
  EXPECT_EQ(read("[[0.25, 1], [0, 0.5]]\n"), expected);
  EXPECT_EQ(read("2.5e-01\t1.0\n0.0\t5e-1\n"), expected);
  EXPECT_EQ(read("0.25, 1\n0, 0.5"), expected);
}

TEST_F(HeadTableFile, MistakesNameFileLineAndHead) {
  EXPECT_THAT(error_of("{\"0-0\": [1],\n \"0-0\": [1]}"),
              AllOf(HasSubstr(path_ + ":2:"), HasSubstr("\"0-0\" is there twice")));
  EXPECT_THAT(error_of(R"({"0-0": 1, "0-1": 1, "1-0": 1})"), HasSubstr("\"1-1\" is missing of 2 layers of 2 heads"));
  EXPECT_THAT(error_of(R"({"0-0": [1], "0-1": []})"), HasSubstr("expected a score in 0..1e+30, found \"]\""));
  EXPECT_THAT(error_of(R"({"a-0": [1]})"), HasSubstr("expected \"layer-head\", each in 0..4095, found \"a-0\""));
  EXPECT_THAT(error_of(R"({"0-4096": [1]})"), HasSubstr("0..4095"));
  EXPECT_THAT(error_of(R"({"0_0": [1]})"), HasSubstr("after the layer"));
  EXPECT_THAT(error_of("0.5\t-0.1\n"), HasSubstr("expected a score in 0..1e+30, found \"-0.1\""));
  EXPECT_THAT(error_of("0.5\t1.1e30\n"), HasSubstr("found \"1.1e30\""));
  EXPECT_THAT(error_of("0.5\tnan\n"), HasSubstr("found \"nan\""));
  EXPECT_THAT(error_of("[[1, 2], [3]]"), HasSubstr("layer 1 has 1 heads, layer 0 has 2"));
  EXPECT_THAT(error_of("[[1], [2]] 3"), HasSubstr("expected the end of the table, found \"3\""));
  EXPECT_THAT(error_of("[[1, 2]"), HasSubstr("found the end of the file"));
  EXPECT_THAT(error_of("0 0\n0 0\n"), HasSubstr("all are 0"));
  EXPECT_THAT(error_of(" \n"), HasSubstr("found nothing"));
}

}  // namespace
}  // namespace kvtide::experiment
