#include "base/data_directory.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kvtide {
namespace {

TEST(DataDirectory, AFileIsFoundByItsShippedName) {
  EXPECT_TRUE(find_data_file("models", "llama-3.1-8b", {".json"}).ends_with("/llama-3.1-8b.json"));
}

TEST(DataDirectory, ANameInAnyCaseIsAShippedOne) {
  EXPECT_TRUE(find_data_file("hw_profiles", "H100-SXM", {".yaml"}).ends_with("/h100-sxm.yaml"));
  try {
    (void)find_data_file("hw_profiles", "H100-SMX", {".yaml"});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean h100-sxm?"), std::string::npos) << error.what();
  }
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
