#include "hdf5/replaceable_output.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace kvtide::hdf5 {
namespace {

class ReplaceableOutput : public testing::Test {
 protected:
  ReplaceableOutput() : folder_(std::filesystem::temp_directory_path() / fmt::format("replaceable-{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~ReplaceableOutput() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

constexpr const char* kResults = "\x89HDF\r\n\x1a\n and the rest";

TEST_F(ReplaceableOutput, IsWhatIsNotThereOrEmptyOrHdf5) {
  EXPECT_NO_THROW(require_replaceable(folder_ / "none.h5", {}));
  EXPECT_NO_THROW(require_replaceable(folder_ / "no-folder" / "none.h5", {}));
  EXPECT_NO_THROW(require_replaceable(write("empty", ""), {}));
  EXPECT_NO_THROW(require_replaceable(write("old.h5", kResults), {}));
}

TEST_F(ReplaceableOutput, IsNoOtherFile) {
  EXPECT_THROW(require_replaceable(write("mine.yaml", "name: mine"), {}), InputError);
  EXPECT_THROW(require_replaceable(write("short", "x"), {}), InputError);
  EXPECT_THROW(require_replaceable(write("cut", "\x89HDF\r\n\x1a"), {}), InputError);  // a byte short
}

TEST_F(ReplaceableOutput, IsNoInputByWhateverName) {
  const std::string trace = write("trace.h5", kResults);
  const std::string other = write("other.h5", kResults);
  std::filesystem::create_symlink(trace, folder_ / "link.h5");
  EXPECT_NO_THROW(require_replaceable(trace, std::vector{other}));
  EXPECT_THROW(require_replaceable(trace, std::vector{other, trace}), InputError);
  EXPECT_THROW(require_replaceable(folder_ / "link.h5", std::vector{trace}), InputError);
}

}  // namespace
}  // namespace kvtide::hdf5
