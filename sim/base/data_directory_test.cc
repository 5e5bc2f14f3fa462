#include "base/data_directory.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide {
namespace {

TEST(DataDirectory, AFileIsFoundByItsShippedName) {
  EXPECT_TRUE(find_data_file("models", "llama-3.1-8b", {".json"}).ends_with("/llama-3.1-8b.json"));
}

// Names of file systems end at 255 bytes, whole paths at 4096 (limits.h): beyond both, the system refuses to look.
TEST(DataDirectory, ANameThatNoFileSystemTakesIsNoFile) {
  for (const std::size_t length : {255, 256, 4095, 4096}) {
    EXPECT_THROW((void)find_data_file("models", std::string(length, 'x'), {".json"}), InputError) << length;
  }
  EXPECT_THROW((void)find_data_file("models", "/dev/null/below-a-file", {".json"}), InputError);
}

}  // namespace
}  // namespace kvtide
