#include "experiment/given_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "base/error.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

using ::testing::HasSubstr;

/// Layers 3 and 5 of a model, one KV head, four tokens; half removed.
class GivenScores : public ::testing::Test {
 protected:
  GivenScores() : path_((std::filesystem::path(::testing::TempDir()) / "given_scores.h5").string()) {
    info_.origin = "t.h5";
    info_.num_kv_heads = 1;
    info_.layers = {5};
  }
  ~GivenScores() override { std::filesystem::remove(path_); }

  void write(bool with_kept, bool with_scores, const std::string& second_method = "") {
    hdf5::OutputFile file(path_);
    file.attribute("/", "layers", std::vector<std::int64_t>{3, 5});
    file.attribute("/", "ratios", 0.5);
    for (const std::string& method : {std::string("Mine"), second_method}) {
      if (method.empty()) continue;
      file.create_group("/" + method);
      const auto axis = [&](const std::string& name, std::vector<std::int64_t> values) {
        file.dimension("/" + method + "/" + name, values, {name});
        return "/" + method + "/" + name;
      };
      const std::string layer = axis("layer", {0, 1});
      const std::string ratio = axis("ratio", {0});
      const std::string head = axis("kv_head", {0});
      const std::string token = axis("token", {0, 1, 2, 3});
      const std::vector<std::uint8_t> kept{1, 1, 0, 0, 0, 1, 0, 1};
      const std::vector<float> scores{1, 2, 3, 4, 5, 6, 7, 8};
      if (with_kept) file.write("/" + method + "/kept", std::span(kept), {layer, ratio, head, token}, {"kept"});
      if (with_scores) file.write("/" + method + "/scores", std::span(scores), {layer, head, token}, {"scores"});
    }
    file.commit();
  }
  [[nodiscard]] kv::Evict stage(kv::PartsPerMillion keep = 500000, const std::string& method = "") const {
    kv::Evict evict;
    evict.scorer = "file";
    evict.keep = keep;
    evict.kept_file = path_;
    evict.kept_method = method;
    return evict;
  }
  [[nodiscard]] std::string error_of(const kv::Evict& evict, std::int64_t num_positions = 4) const {
    try {
      (void)read_given_scores(evict, info_, num_positions);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::string path_;
  attention::TraceInfo info_;
};

TEST_F(GivenScores, KeptPositionsOfTheTracesLayerBecomeOnesAndZeros) {
  write(true, true);
  EXPECT_EQ(read_given_scores(stage(), info_, 4), (std::vector<kv::LayerScores>{{{0, 1, 0, 1}}}));
  // The trace compresses fewer positions than the file holds.
  EXPECT_EQ(read_given_scores(stage(), info_, 3), (std::vector<kv::LayerScores>{{{0, 1, 0}}}));
}

TEST_F(GivenScores, ScoresServeRatiosThatTheFileDoesNotHold) {
  write(true, true);
  EXPECT_EQ(read_given_scores(stage(250000), info_, 4), (std::vector<kv::LayerScores>{{{5, 6, 7, 8}}}));
  write(true, false);
  EXPECT_THAT(error_of(stage(250000)), HasSubstr("keep_ratio 0.25"));
}

TEST_F(GivenScores, WhatDoesNotFitTheTraceIsRefusedByName) {
  write(true, true);
  EXPECT_THAT(error_of(stage(), 5), HasSubstr("at least 5 tokens"));
  info_.layers = {4};
  EXPECT_THAT(error_of(stage()), HasSubstr("the trace records layer 4"));
  info_.layers = {5};
  EXPECT_THAT(error_of(stage(500000, "Yours")), HasSubstr("no method \"Yours\""));
  write(true, true, "Other");
  EXPECT_THAT(error_of(stage()), HasSubstr("Mine, Other"));
  EXPECT_EQ(error_of(stage(500000, "Other")), "");
  write(false, false);
  EXPECT_THAT(error_of(stage()), HasSubstr("/Mine: expected kept [layer, ratio, kv_head, token] or scores"));
}

}  // namespace
}  // namespace kvtide::experiment
