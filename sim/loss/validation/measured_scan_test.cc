// Which prompts a measured row belongs to, and prompt files nobody vouches for.
#include "loss/validation/measured_scan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "hdf5/child_trial.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::loss {
namespace {

using testing::HasSubstr;

class MeasuredScan : public testing::Test {
 protected:
  MeasuredScan() {
    std::filesystem::create_directories(folder_);
    hdf5::OutputFile file(prompts_);
    // "far" and "near" have contexts of 4 tokens, "long" of 6; only "near" holds the probe that starts at 2.
    write_group(file, "far", 4, {0, 1});
    write_group(file, "long", 6, {0, 1, 2});
    write_group(file, "near", 4, {0, 2});
    file.commit();
  }
  ~MeasuredScan() override { std::filesystem::remove_all(folder_); }

  static void write_group(hdf5::OutputFile& file, const std::string& name, std::int64_t length,
                          const std::vector<std::int64_t>& starts) {
    const std::string prompt = fmt::format("/{}/prompt", name);
    const std::string token = fmt::format("/{}/token", name);
    const std::vector<std::int64_t> prompts(starts.size(), 1);
    const std::vector<std::int64_t> tokens(static_cast<std::size_t>(length), 1);
    const std::vector<std::int64_t> ids(prompts.size() * tokens.size(), 7);
    file.create_group("/" + name);
    file.dimension(prompt, prompts, {});
    file.dimension(token, tokens, {});
    file.write(fmt::format("/{}/context_ids", name), std::span<const std::int64_t>(ids), {prompt, token}, {});
    file.write(fmt::format("/{}/probe_start", name), std::span<const std::int64_t>(starts), {prompt}, {});
  }

  /// One row: evict half of blocks of 16, asked about the fact at `start` of a context of `length` tokens.
  [[nodiscard]] std::string scan(int length, int start) const {
    const std::string path = (folder_ / "scan.csv").string();
    std::ofstream(path) << "mode,policy,block,ratio,head_scope,probe_start,context_len,logp_full,logp_comp,em_comp\n"
                        << "aware,evict,16,0.5,head," << start << ',' << length << ",-0.25,-1.5,0\n";
    return path;
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("measured_scan_{}", ::getpid());
  std::string prompts_ = (folder_ / "prompts.h5").string();
};

TEST_F(MeasuredScan, BelongsToTheFirstGroupOfItsLengthThatHoldsItsProbes) {
  const auto scan_of = [&](int length, int start) {
    return load_measured_scans(prompts_, {scan(length, start)}).at(0).setting.scan;
  };
  EXPECT_EQ(scan_of(4, 1), "far");
  EXPECT_EQ(scan_of(4, 2), "near");
  EXPECT_EQ(scan_of(4, 0), "far");  // both hold it
  EXPECT_EQ(scan_of(6, 2), "long");
}

TEST_F(MeasuredScan, LossIsWhatTheAnswerBecameLessLikely) {
  const MeasuredRow row = load_measured_scans(prompts_, {scan(4, 1)}).at(0);
  EXPECT_DOUBLE_EQ(row.loss, 1.25);  // -0.25 - -1.5
  EXPECT_TRUE(row.is_failing);
  EXPECT_EQ(row.setting.removed_ppm, 500'000);
  EXPECT_EQ(row.prompt, 1);
}

TEST_F(MeasuredScan, PromptsThatNoGroupHoldsAreRefused) {
  for (const auto& [length, start] : {std::pair(5, 0), std::pair(4, 3)}) {
    try {
      (void)load_measured_scans(prompts_, {scan(length, start)});
      ADD_FAILURE() << length << ' ' << start;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no group of"));
    }
  }
}

TEST_F(MeasuredScan, DamagedPromptsNeverCrash) {
  const std::string rows = scan(4, 1);
  std::ifstream stream(prompts_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const std::string copy = (folder_ / "damaged.h5").string();
  RandomStream random(11, "damaged prompts");
  for (int i = 0; i < 60; ++i) {
    std::string damaged = bytes;
    for (std::uint64_t flips = 1 + random.below(6); flips > 0; --flips)
      damaged[random.below(damaged.size())] ^= static_cast<char>(1 + random.below(255));
    std::ofstream(copy, std::ios::binary) << damaged;
    // In a child, for the library also complains of such a file when its process ends.
    EXPECT_EQ(hdf5::failed_trial([&] { (void)load_measured_scans(copy, {rows}); }, std::chrono::seconds(60)), "")
        << "mutation " << i;
  }
  std::ofstream(copy, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_THROW((void)load_measured_scans(copy, {rows}), InputError);
}

}  // namespace
}  // namespace kvtide::loss
