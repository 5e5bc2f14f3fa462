#include "attention/trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attention/trace_writer.h"
#include "base/error.h"
#include "hdf5/hdf5_file.h"
#include "kv/attention_weights.h"

namespace kvtide::attention {
namespace {

using testing::ElementsAre;

const char* const kCommitted = KVTIDE_SOURCE_DIR "/experiments/traces/smollm2-135m-2k.h5";
const char* const kFixture = KVTIDE_SOURCE_DIR "/../shared/data/smollm2-135m-trace-2k.h5";
const char* const kFixtureMore = KVTIDE_SOURCE_DIR "/../shared/data/smollm2-135m-trace-2k-more.h5";

std::string layer_group(const Trace& trace, std::int64_t layer_index) {
  return fmt::format("/layer_{:02}", trace.info().layers[static_cast<std::size_t>(layer_index)]);
}

/// What the recorded model computed, [head, row, channel].
std::vector<float> stored(const std::string& path, const std::string& dataset) {
  return hdf5::InputFile(path).read_floats(dataset);
}

/// Largest difference of two [head, row, channel] arrays, in units of the length of the rotated channel pair.
double worst_pair_error(const std::vector<float>& got, const std::vector<float>& want, std::size_t head_dim) {
  double worst = 0;
  const std::size_t half = head_dim / 2;
  for (std::size_t row = 0; row < want.size(); row += head_dim)
    for (std::size_t i = row; i < row + half; ++i) {
      const double length = std::hypot(want[i], want[i + half]);
      const double error = std::max(std::abs(got[i] - want[i]), std::abs(got[i + half] - want[i + half]));
      worst = std::max(worst, error / std::max(length, 1e-3));
    }
  return worst;
}

/// Rows of the stacked queries that belong to positions first..last, [query_head, query, channel].
std::vector<float> queries_between(const kv::LayerTensors& layer, std::int64_t first, std::int64_t last) {
  std::vector<float> rows;
  for (const kv::HeadTensors& head : layer)
    for (std::int64_t row = 0; row < head.q_post.rows(); ++row) {
      const std::int64_t position = head.q_positions[static_cast<std::size_t>(row % head.num_queries())];
      if (position < first || position > last) continue;
      rows.insert(rows.end(), head.q_post.row(row).data(), head.q_post.row(row).data() + head.head_dim());
    }
  return rows;
}

/// Relative errors |o' - o| / |o| of attention recomputed from the trace, one per query head and stored query.
/// @param want  [query_head, query, channel] of the queries at first..last
std::vector<double> output_errors(const kv::LayerTensors& layer, const std::vector<float>& want, std::int64_t first,
                                  std::int64_t last) {
  std::vector<std::int64_t> positions;
  for (std::int64_t position = first; position <= last; ++position) positions.push_back(position);
  const std::vector<float> queries = queries_between(layer, first, last);
  std::vector<double> errors;
  std::size_t at = 0;
  for (const kv::HeadTensors& head : layer) {
    const Eigen::Map<const kv::RowMatrix> q(queries.data() + at, head.group_size * (last - first + 1), head.head_dim());
    const kv::RowMatrix output =
        kv::attention_weights(q, positions, head.k_post, head.num_positions(), head.attention_scale) * head.v;
    for (std::int64_t row = 0; row < output.rows(); ++row, at += static_cast<std::size_t>(head.head_dim())) {
      const Eigen::Map<const Eigen::RowVectorXf> model(&want.at(at), head.head_dim());
      errors.push_back((output.row(row) - model).cast<double>().norm() / model.cast<double>().norm());
    }
  }
  EXPECT_EQ(at, want.size());
  return errors;
}

void expect_model_outputs(const Trace& trace, const std::string& path, std::int64_t layer_index) {
  const std::string group = layer_group(trace, layer_index);
  const kv::LayerTensors layer = trace.load_layer(layer_index);
  // The recording's own check in NumPy found a mean of 4e-4 to 9e-4 a layer and at most 9.4e-3 (float16 storage).
  const std::vector<double> errors = output_errors(layer, stored(path, group + "/attn_out_last32"), 2016, 2047);
  ASSERT_EQ(errors.size(), 9U * 32U);
  double sum = 0;
  for (const double error : errors) sum += error;
  const double worst = *std::max_element(errors.begin(), errors.end());
  EXPECT_LE(sum / static_cast<double>(errors.size()), 1e-3) << group;
  EXPECT_LE(worst, 1e-2) << group;
  testing::Test::RecordProperty("mean_error" + group.substr(1), fmt::format("{}", sum / 288));
  testing::Test::RecordProperty("worst_error" + group.substr(1), fmt::format("{}", worst));
  const std::vector<double> decoded =
      output_errors(layer,
                    stored(path, trace.info().format == "kvtide-trace-1" ? group + "/attn_out_decode"
                                                                         : "/decode" + group + "/attn_out"),
                    2048, 2051);
  ASSERT_EQ(decoded.size(), 9U * 4U);
  EXPECT_LE(*std::max_element(decoded.begin(), decoded.end()), 1e-2) << group;
}

TEST(Trace, CommittedTraceSaysWhatItHolds) {
  const Trace trace = Trace::open(kCommitted);
  const TraceInfo& info = trace.info();
  EXPECT_EQ(info.format, "kvtide-trace-1");
  EXPECT_THAT(info.layers, ElementsAre(9, 18));
  EXPECT_EQ(info.num_model_layers, 30);
  EXPECT_EQ(info.num_query_heads, 9);
  EXPECT_EQ(info.num_kv_heads, 3);
  EXPECT_EQ(info.group_size(), 3);
  EXPECT_EQ(info.head_dim, 64);
  EXPECT_EQ(info.rope_theta, 100000);
  EXPECT_EQ(info.attention_scale, 0.125);
  EXPECT_EQ(info.num_tokens, 2052);
  EXPECT_EQ(info.num_context, 2021);
  EXPECT_EQ(info.question, (QueryRange{2021, 2047}));
  EXPECT_EQ(info.answer, (QueryRange{2047, 2050}));
  EXPECT_EQ(info.question_and_answer(), (QueryRange{2021, 2050}));
  ASSERT_EQ(trace.probes().size(), 4U);
  const Probe& asked = trace.probes()[2];
  EXPECT_TRUE(asked.is_asked);
  EXPECT_FALSE(trace.probes()[0].is_asked);
  EXPECT_EQ(asked.noun, "copper");
  EXPECT_EQ(asked.start, 1203);
  EXPECT_EQ(asked.length, 16);
  EXPECT_THAT(asked.digit_positions, ElementsAre(1213, 1214, 1215, 1216));
  // The tokens at the digits are the code's digits, and so are the answer's tokens.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace.token_strings().at(static_cast<std::size_t>(asked.digit_positions[i])), asked.code.substr(i, 1));
    EXPECT_EQ(trace.token_strings().at(2048 + i), asked.code.substr(i, 1));
    EXPECT_EQ(trace.token_ids().at(2048 + i), trace.token_ids().at(1213 + i));
  }
}

TEST(Trace, LayerIsStackedByGroup) {
  const Trace trace = Trace::open(kCommitted);
  const RecordedLayer recorded = trace.load_recorded_layer(1);
  const kv::LayerTensors layer = trace.load_layer(1);
  ASSERT_EQ(layer.size(), 3U);
  const std::vector<float> q_pre = stored(kCommitted, "/layer_18/q_pre");  // [9, 260, 64]
  for (std::int64_t kv_head = 0; kv_head < 3; ++kv_head) {
    const kv::HeadTensors& head = layer[static_cast<std::size_t>(kv_head)];
    EXPECT_EQ(head.num_positions(), 2052);
    EXPECT_EQ(head.q_post.rows(), 3 * 260);
    EXPECT_EQ(head.q_positions.front(), 1792);
    EXPECT_EQ(head.q_positions.back(), 2051);
    // Query head 3 * kv_head + 1, query 7, channel 5.
    EXPECT_EQ(recorded.q_pre[static_cast<std::size_t>(kv_head)](260 + 7, 5),
              q_pre[static_cast<std::size_t>(((3 * kv_head + 1) * 260 + 7) * 64 + 5)]);
  }
}

TEST(Trace, RotationMatchesTheModelsRotatedTensors) {
  // Inputs and stored results are float16: each rounds by at most 2^-11 of the pair's length, 2^-10 together.
  const Trace trace = Trace::open(kCommitted);
  for (std::int64_t layer_index = 0; layer_index < 2; ++layer_index) {
    const kv::LayerTensors layer = trace.load_layer(layer_index);
    EXPECT_LE(worst_pair_error(queries_between(layer, 2016, 2047),
                               stored(kCommitted, layer_group(trace, layer_index) + "/q_post_last32"), 64),
              0x1p-10);
  }
  std::vector<float> keys;
  for (const kv::HeadTensors& head : trace.load_layer(1))
    keys.insert(keys.end(), head.k_post.row(1792).data(), head.k_post.row(1792).data() + 256 * 64);
  EXPECT_LE(worst_pair_error(keys, stored(kCommitted, "/layer_18/k_post_last256"), 64), 0x1p-10);
}

TEST(Trace, RecomputedAttentionMatchesTheModelsOutputs) {
  const Trace trace = Trace::open(kCommitted);
  for (std::int64_t layer_index = 0; layer_index < trace.num_layers(); ++layer_index)
    expect_model_outputs(trace, kCommitted, layer_index);
}

/// Tests that need the full recording, which does not come with the repository.
class RecordedFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFixture)) GTEST_SKIP() << kFixture << " is not there";
  }
};

TEST_F(RecordedFixture, EveryLayerMatchesTheModel) {
  const Trace trace = Trace::open(kFixture);
  EXPECT_THAT(trace.info().layers, ElementsAre(1, 9, 18, 27));
  EXPECT_EQ(trace.info().answer, (QueryRange{2047, 2050}));
  for (std::int64_t layer_index = 0; layer_index < trace.num_layers(); ++layer_index) {
    expect_model_outputs(trace, kFixture, layer_index);
    const kv::LayerTensors layer = trace.load_layer(layer_index);
    EXPECT_LE(worst_pair_error(queries_between(layer, 2016, 2047),
                               stored(kFixture, layer_group(trace, layer_index) + "/q_post_last32"), 64),
              0x1p-10);
  }
  std::vector<float> keys;
  for (const kv::HeadTensors& head : trace.load_layer(2))
    keys.insert(keys.end(), head.k_post.data(), head.k_post.data() + 2048 * 64);
  EXPECT_LE(worst_pair_error(keys, stored(kFixture, "/layer_18/k_post"), 64), 0x1p-10);
}

TEST_F(RecordedFixture, GivesTheSameTensorsAsTheCommittedCut) {
  const Trace fixture = Trace::open(kFixture);
  const Trace cut = Trace::open(kCommitted);
  EXPECT_EQ(fixture.token_ids(), cut.token_ids());
  EXPECT_EQ(fixture.token_strings(), cut.token_strings());
  for (const auto& [in_fixture, in_cut] : {std::pair{1, 0}, std::pair{2, 1}}) {
    const RecordedLayer a = fixture.load_recorded_layer(in_fixture);
    const RecordedLayer b = cut.load_recorded_layer(in_cut);
    const auto num_a = static_cast<std::int64_t>(a.q_positions.size());
    const auto num_b = static_cast<std::int64_t>(b.q_positions.size());
    EXPECT_EQ(num_a, in_fixture == 2 ? 2052 : 260);  // layer 18 was recorded with the queries of all positions
    for (std::size_t kv_head = 0; kv_head < 3; ++kv_head) {
      EXPECT_EQ(a.k_pre[kv_head], b.k_pre[kv_head]);
      EXPECT_EQ(a.v[kv_head], b.v[kv_head]);
      for (std::int64_t group = 0; group < 3; ++group)
        EXPECT_EQ(a.q_pre[kv_head].middleRows((group + 1) * num_a - num_b, num_b),
                  b.q_pre[kv_head].middleRows(group * num_b, num_b));
    }
  }
}

TEST_F(RecordedFixture, CompanionAddsAllQueriesAndTheOutputProjection) {
  if (!std::filesystem::exists(kFixtureMore)) GTEST_SKIP() << kFixtureMore << " is not there";
  const Trace trace = Trace::open(kFixture, kFixtureMore);
  const Trace alone = Trace::open(kFixture);
  EXPECT_EQ(alone.output_projection(0).size(), 0);
  for (std::int64_t layer_index = 0; layer_index < trace.num_layers(); ++layer_index) {
    EXPECT_EQ(trace.query_positions(layer_index).size(), 2052U);
    EXPECT_EQ(trace.output_projection(layer_index).rows(), 576);
    EXPECT_EQ(trace.output_projection(layer_index).cols(), 576);
  }
  EXPECT_EQ(queries_between(trace.load_layer(0), 1792, 2051), queries_between(alone.load_layer(0), 1792, 2051));
}

TEST_F(RecordedFixture, WritingItInOurOwnLayoutKeepsEveryTensor) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("kvtide-trace-{}.h5", ::getpid())).string();
  const Trace fixture = Trace::open(kFixture);
  write_trace(path, fixture);
  const Trace copy = Trace::open(path);
  EXPECT_EQ(copy.token_strings(), fixture.token_strings());
  EXPECT_EQ(copy.probes().size(), 4U);
  EXPECT_EQ(copy.info().layers, fixture.info().layers);
  for (std::int64_t layer_index = 0; layer_index < 4; ++layer_index) {
    const RecordedLayer a = fixture.load_recorded_layer(layer_index);
    const RecordedLayer b = copy.load_recorded_layer(layer_index);
    EXPECT_EQ(a.q_positions, b.q_positions);
    for (std::size_t kv_head = 0; kv_head < 3; ++kv_head) {
      EXPECT_EQ(a.k_pre[kv_head], b.k_pre[kv_head]);
      EXPECT_EQ(a.v[kv_head], b.v[kv_head]);
      EXPECT_EQ(a.q_pre[kv_head], b.q_pre[kv_head]);
    }
  }
  std::filesystem::remove(path);
}

TEST_F(RecordedFixture, BothFilesPassTheCheck) {
  EXPECT_THAT(check_trace(kFixture), testing::IsEmpty());
  EXPECT_THAT(check_trace(kFixture, std::filesystem::exists(kFixtureMore) ? kFixtureMore : ""), testing::IsEmpty());
  EXPECT_THAT(check_trace(kCommitted), testing::IsEmpty());
}

}  // namespace
}  // namespace kvtide::attention
