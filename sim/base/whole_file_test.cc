#include "base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  WholeFileTest() : folder_(fs::path(::testing::TempDir()) / fmt_name()) { fs::create_directories(folder_); }
  ~WholeFileTest() override { fs::remove_all(folder_); }
  static std::string fmt_name() {
    return std::string("whole_file_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
           std::to_string(::getpid());
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::size_t num_files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(WholeFileTest, WhatIsWrittenIsReadAndNothingElseIsLeft) {
  const std::string bytes("a\0b\n", 4);
  write_whole_file(path("f"), "earlier, and longer");
  write_whole_file(path("f"), bytes);
  EXPECT_EQ(read_whole_file(path("f"), 4, "a test"), bytes);
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(WholeFileTest, LimitIsTheLongestThatIsRead) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{65536}, std::size_t{65537}}) {
    write_whole_file(path("f"), std::string(size, 'x'));
    EXPECT_EQ(read_whole_file(path("f"), size, "a test").size(), size);
    if (size == 0) continue;
    try {
      (void)read_whole_file(path("f"), size - 1, "a test");
      ADD_FAILURE() << size << " B are longer than the limit";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("bytes, the limit for a test"));
    }
  }
}

TEST_F(WholeFileTest, OnlyRegularFilesAreRead) {
  EXPECT_THROW((void)read_whole_file(path("none"), 10, "a test"), InputError);
  EXPECT_THROW((void)read_whole_file(folder_.string(), 10, "a test"), InputError);
  EXPECT_THROW((void)read_whole_file("/dev/zero", 10, "a test"), InputError);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THROW((void)read_whole_file(path("pipe"), 10, "a test"), InputError);  // and does not wait for a writer
}

TEST_F(WholeFileTest, NothingIsLeftOfWhatWasNotCommitted) {
  write_whole_file(path("f"), "earlier");
  {
    const WholeFile file(path("f"));
    EXPECT_TRUE(fs::exists(file.partial_path()));
  }
  EXPECT_EQ(read_whole_file(path("f"), 100, "a test"), "earlier");
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(WholeFileTest, UnwritablePlacesAreFoundBeforeAnythingIsWritten) {
  EXPECT_THROW(WholeFile(path("none/f")), EnvironmentError);
  EXPECT_THROW(WholeFile("/dev/null"), EnvironmentError);
  EXPECT_NO_THROW(write_whole_file("/dev/null", "x"));  // a stream stays one
  EXPECT_THROW(write_whole_file("/dev/full", "x"), EnvironmentError);
  fs::create_directory(path("folder"));
  try {
    write_whole_file(path("folder"), "x");
    ADD_FAILURE() << "a folder is not replaced";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("folder: cannot be put in place"));
  }
  EXPECT_EQ(num_files(), 1U);  // the folder
}

TEST_F(WholeFileTest, AFolderThatVanishesIsAnErrorWithItsName) {
  fs::create_directory(path("gone"));
  WholeFile file(path("gone/f"));
  fs::rename(path("gone"), path("moved"));
  try {
    file.commit("x");
    ADD_FAILURE() << "there is no such folder";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("gone/f: cannot be written: No such file or directory"));
  }
}

}  // namespace
}  // namespace kvtide
