#include "experiment/validation/kept_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include "attention/synthetic.h"
#include "attention/trace_writer.h"
#include "base/error.h"
#include "experiment/kept_file.h"
#include "experiment/validation/peer_method.h"
#include "hdf5/hdf5_file.h"
#include "kv/compression/scorer.h"
#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

using ::testing::HasSubstr;

const std::string kData = KVTIDE_SOURCE_DIR "/../shared/data/";

const kv::Evict& stage_of(const PeerMethod& method) {
  return std::get<kv::Evict>(method.setting.stages.front());
}

kv::PartsPerMillion keep_at(const PeerMethod& method, double removed, std::int64_t num_positions) {
  return std::get<kv::Evict>(at_ratio(method, removed, num_positions, 0, 30).stages.front()).keep;
}

TEST(PeerMethod, NestedClassesBecomeOneComposition) {
  const PeerMethod chunks = peer_method(
      "x",
      R"({"class": "ChunkKVPress", "press": {"class": "SnapKVPress", "window_size": 32, "kernel_size": 7}, "chunk_length": 64})");
  EXPECT_EQ(chunks.kind, PeerKind::evict);
  EXPECT_EQ(chunks.setting.block_size, 64);
  EXPECT_EQ(stage_of(chunks).scorer, "snapkv");
  EXPECT_EQ(stage_of(chunks).parameters, (kv::ScorerParameters{{"kernel", 7}, {"window", 32}}));
  EXPECT_EQ(stage_of(chunks).heads, kv::HeadScope::shared);
  EXPECT_EQ(stage_of(chunks).granularity, kv::Granularity::block);
  EXPECT_EQ(peer_method("x", R"({"class": "BlockPress", "press": {"class": "KeyDiffPress"}})").setting.block_size, 128);
  EXPECT_TRUE(peer_method("x", R"({"class": "RandomPress", "seed": 0})").is_stochastic);
}

// A threshold over the inner scores, the newest `sliding_window_size` positions safe; re-rotation chooses as what it wraps.
TEST(PeerMethod, ThresholdsAndReRotationAreTheirInnerChoice) {
  const PeerMethod threshold = peer_method(
      "x", R"({"class": "DMSPress", "press": {"class": "KnormPress"}, "threshold": -3.5, "sliding_window_size": 100})");
  EXPECT_EQ(threshold.kind, PeerKind::evict);
  EXPECT_EQ(stage_of(threshold).threshold, -3.5);
  EXPECT_EQ(threshold.setting.window, 100);
  EXPECT_EQ(peer_method("x", R"({"class": "DMSPress", "press": {"class": "KnormPress"}})").kind, PeerKind::unknown);
  const PeerMethod turned = peer_method("x", R"({"class": "KeyRerotationPress", "press": {"class": "TOVAPress"}})");
  EXPECT_EQ(turned.kind, PeerKind::evict);
  EXPECT_EQ(stage_of(turned).scorer, "tova");
}

TEST(PeerMethod, WhatWeCannotIdentifyIsUnknownAndNoError) {
  for (const char* parameters : {"", "not json {", R"({"class": "KVzipPress"})", R"({"press": {}})", "[1]",
                                 R"({"class": "AdaKVPress", "press": {"class": "QFilterPress"}})",
                                 R"({"class": "SnapKVPress", "window_size": "wide"})"}) {
    EXPECT_EQ(peer_method("x", parameters).kind, PeerKind::unknown) << parameters;
  }
}

// The peer truncates: 103 chunks of 20 in 2,048 positions, half removed -> 51; 10 positions, 0.95 removed -> at least 1.
TEST(PeerMethod, KeepsAsManyAsThePeerDoes) {
  const PeerMethod chunks =
      peer_method("x", R"({"class": "ChunkKVPress", "press": {"class": "KnormPress"}, "chunk_length": 20})");
  EXPECT_EQ(kv::kept_count(103, keep_at(chunks, 0.5, 2048)), 51);
  const PeerMethod tokens = peer_method("x", R"({"class": "KnormPress"})");
  EXPECT_EQ(kv::kept_count(10, keep_at(tokens, 0.95, 10)), 1);
}

/// A trace of 256 tokens and a reference of Knorm on it, written by hand.
class SmallReference : public ::testing::Test {
 protected:
  SmallReference() : folder_(std::filesystem::path(::testing::TempDir()) / "kept_report") {
    std::filesystem::create_directories(folder_);
    attention::SyntheticSpec spec;
    spec.kind = attention::synthetic_kind("ar1");
    spec.tokens = 256;
    spec.layers = 1;
    trace_ = attention::make_synthetic(spec);
  }
  ~SmallReference() override { std::filesystem::remove_all(folder_); }

  /// @param scores  [kv_head, token], or empty
  std::string write(const std::string& parameters, bool keeps_first_half, const std::vector<float>& scores = {}) {
    const std::string path = (folder_ / "reference.h5").string();
    const auto heads = trace_->info().num_kv_heads;
    const std::int64_t tokens = trace_->info().num_tokens;
    hdf5::OutputFile file(path);
    file.attribute("/", "layers", trace_->info().layers);
    file.attribute("/", "ratios", 0.5);
    file.create_group("/Mine");
    file.attribute("/Mine", "params", parameters);
    const auto axis = [&](const std::string& name, std::int64_t size) {
      std::vector<std::int64_t> values(static_cast<std::size_t>(size));
      for (std::size_t index = 0; index < values.size(); ++index) values[index] = static_cast<std::int64_t>(index);
      file.dimension("/Mine/" + name, values, {name});
      return "/Mine/" + name;
    };
    const std::vector<std::string> axes{axis("layer", 1), axis("ratio", 1), axis("kv_head", heads),
                                        axis("token", tokens)};
    std::vector<std::uint8_t> kept;
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t token = 0; token < tokens; ++token)
        kept.push_back((token < tokens / 2) == keeps_first_half ? 1 : 0);
    }
    file.write("/Mine/kept", std::span<const std::uint8_t>(kept), axes, {"kept"});
    if (!scores.empty()) {
      file.write("/Mine/scores", std::span<const float>(scores), {axes[0], axes[2], axes[3]}, {"scores"});
    }
    file.commit();
    return path;
  }

  std::filesystem::path folder_;
  std::optional<attention::Trace> trace_;
};

// StreamingLLM with 128 sinks of 256, half removed, keeps the first half: known by the rule, no numbers needed.
TEST_F(SmallReference, AgreementIsTheShareOfPairsThatAreTheSame) {
  const std::string streaming = R"({"class": "StreamingLLMPress", "n_sink": 128})";
  std::vector<KeptRow> rows = compare_kept(*trace_, write(streaming, true));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].known);
  EXPECT_EQ(rows[0].agreement, 1.0);
  EXPECT_EQ(rows[0].keep_ratio, 0.5);
  EXPECT_TRUE(std::isnan(rows[0].score_error));
  // Blindness: another answer in the file moves nothing but the comparison.
  rows = compare_kept(*trace_, write(streaming, false));
  EXPECT_EQ(rows[0].agreement, 0.0);
}

// Partitions of 64, the last scores 1. The peer has the two best ranks of the first partition, 63/64 and 62/64, the other way
// round: what lies behind them is as far apart as the two best values.
TEST_F(SmallReference, RanksThatDifferTellHowFarApartTheirValuesAre) {
  const kv::LayerTensors layer = trace_->load_layer(0);
  const auto scores_of = [&](double is_value) {
    return kv::score_layer(
        kv::find_scorer("lagkv"), layer,
        {.num_positions = 256, .parameters = {{"cross_scoring", is_value}, {"lag", 64}, {"sinks", 0}}});
  };
  const kv::LayerScores ranks = scores_of(0);
  std::vector<float> theirs;
  for (const auto& of_head : ranks) theirs.insert(theirs.end(), of_head.begin(), of_head.end());
  const std::string lagkv = R"({"class": "LagKVPress", "n_sink": 0, "lag_size": 64, "cross_scoring": false})";
  EXPECT_EQ(compare_kept(*trace_, write(lagkv, true, theirs)).front().rank_gap, 0.0);

  std::vector<double> values = scores_of(1).front();
  const auto rank_is = [&](double rank) { return std::ranges::find(ranks.front(), rank / 64) - ranks.front().begin(); };
  std::swap(theirs[static_cast<std::size_t>(rank_is(63))], theirs[static_cast<std::size_t>(rank_is(62))]);
  double largest = 0;
  for (const kv::LayerScores all = scores_of(1); const auto& of_head : all) {
    largest = std::max(largest, *std::max_element(of_head.begin(), of_head.begin() + 192));
  }
  values.resize(64);
  std::ranges::sort(values);
  EXPECT_DOUBLE_EQ(compare_kept(*trace_, write(lagkv, true, theirs)).front().rank_gap,
                   (values[63] - values[62]) / largest);
}

TEST_F(SmallReference, UnknownMethodIsARowAndNoError) {
  const std::vector<KeptRow> rows = compare_kept(*trace_, write(R"({"class": "NewPress"})", true));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].known);
  EXPECT_TRUE(std::isnan(rows[0].agreement));
}

TEST_F(SmallReference, ReferenceOfAnotherTraceIsRefused) {
  attention::SyntheticSpec spec;
  spec.kind = attention::synthetic_kind("ar1");
  spec.tokens = 128;
  spec.layers = 1;
  const attention::Trace shorter = attention::make_synthetic(spec);
  const std::string path = write(R"({"class": "KnormPress"})", true);
  try {
    (void)compare_kept(shorter, path);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("reference.h5"));
  }
}

// The recorded peer, every method, layer and share removed. Deterministic methods that a NumPy float32 implementation
// reproduces exactly (README of the data) must agree exactly; all others in 99.8 % of the pairs, with scores within 1e-4
// of the largest.
TEST(KeptReport, RecordedPeerChoosesAsWeDo) {
  const std::string reference = kData + "kvpress-reference-2k.h5";
  if (!std::filesystem::exists(reference)) GTEST_SKIP() << reference << " is not here";
  const auto trace =
      attention::Trace::open(kData + "smollm2-135m-trace-2k.h5", kData + "smollm2-135m-trace-2k-more.h5");
  const std::vector<std::string> exact{"Knorm",
                                       "KeyDiff",
                                       "SnapKV",
                                       "TOVA",
                                       "StreamingLLM",
                                       "ChunkKV20_SnapKV",
                                       "ChunkKV64_SnapKV",
                                       "ChunkKV128_SnapKV",
                                       "EntropyGatedChunkKV10_SnapKV",
                                       "Block64_Knorm",
                                       "Block128_KeyDiff",
                                       "AdaKV_SnapKV",
                                       "AdaKV_Knorm",
                                       "SimLayerKV",
                                       "ThinK"};
  std::int64_t compared = 0;
  for (const KeptRow& row : compare_kept(trace, reference)) {
    const std::string place =
        row.method + " layer " + std::to_string(row.layer) + " keep " + std::to_string(row.keep_ratio);
    EXPECT_TRUE(row.known) << place;
    if (std::isfinite(row.agreement)) {
      ++compared;
      EXPECT_GE(row.agreement, 0.998) << place;
      if (std::ranges::find(exact, row.method) != exact.end()) {
        EXPECT_EQ(row.num_differing, 0) << place;
      }
    }
    if (std::isfinite(row.score_error)) {
      EXPECT_LE(row.score_error, 1e-4) << place;
    }
    if (std::isfinite(row.value_error)) {
      EXPECT_LE(row.value_error, 1e-3) << place;  // values are stored as float16
    }
  }
  EXPECT_GE(compared, 26 * 12);
}

}  // namespace
}  // namespace kvtide::experiment
