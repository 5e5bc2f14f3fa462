#include "attention/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "attention/trace_writer.h"
#include "base/error.h"
#include "kv/attention_weights.h"

namespace kvtide::attention {
namespace {

using testing::HasSubstr;
using Kind = SyntheticSpec::Kind;

/// Attention of the last recorded query (the last position) of a head.
Eigen::VectorXd last_query_weights(const kv::HeadTensors& head) {
  const kv::RowMatrix weights = kv::attention_weights(head.q_post.bottomRows(1), {head.q_positions.back()}, head.k_post,
                                                      head.num_positions(), head.attention_scale);
  return weights.row(0).cast<double>();
}

std::string refusal(const SyntheticSpec& spec) {
  try {
    (void)make_synthetic(spec);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Synthetic, UniformGivesEveryVisibleKeyTheSameWeight) {
  SyntheticSpec spec;
  spec.tokens = 500;
  const Eigen::VectorXd weights = last_query_weights(make_synthetic(spec).load_layer(0)[0]);
  for (std::int64_t j = 0; j < 500; ++j) EXPECT_NEAR(weights(j), 1.0 / 500, 1e-9);
}

TEST(Synthetic, NeedleWeightIsTheClosedForm) {
  SyntheticSpec spec;
  spec.kind = Kind::needle;
  spec.tokens = 1000;
  spec.needle_start = 371;
  spec.strength = 10;
  // T15: e^10 / (e^10 + 999) = 22026.4658 / 23025.4658 = 0.9566132.
  const Trace trace = make_synthetic(spec);
  const Eigen::VectorXd weights = last_query_weights(trace.load_layer(0)[0]);
  EXPECT_NEAR(weights(371), 0.9566132, 1e-6);
  EXPECT_NEAR(weights(370), (1 - 0.9566132) / 999, 1e-9);
  ASSERT_EQ(trace.probes().size(), 1U);
  EXPECT_EQ(trace.probes()[0].start, 371);
  // Strength 0 makes the needle as any other key.
  spec.strength = 0;
  EXPECT_NEAR(last_query_weights(make_synthetic(spec).load_layer(0)[0])(371), 1e-3, 1e-9);
  // Four needle tokens of e^4 = 54.59815: 4 * 54.59815 / (4 * 54.59815 + 996) = 218.3926 / 1214.3926 = 0.1798369.
  spec.strength = 4;
  spec.needle_length = 4;
  EXPECT_NEAR(last_query_weights(make_synthetic(spec).load_layer(0)[0]).segment(371, 4).sum(), 0.1798369, 1e-6);
}

TEST(Synthetic, RecencyHalvesEveryHalfLifeAndSinksKeepTheirs) {
  SyntheticSpec spec;
  spec.kind = Kind::recency;
  spec.tokens = 2000;
  spec.sinks = 2;
  spec.strength = 3;
  spec.half_life = 100;
  spec.question_tokens = 50;
  const kv::LayerTensors layer = make_synthetic(spec).load_layer(0);
  const Eigen::VectorXd weights = last_query_weights(layer[0]);
  EXPECT_NEAR(weights(1899) / weights(1999), 0.5, 1e-5);
  EXPECT_NEAR(weights(1699) / weights(1999), 0.125, 1e-5);
  // The last key has logit 0, a sink 3: e^3 = 20.085537.
  EXPECT_NEAR(weights(0) / weights(1999), 20.085537, 2e-3);
  EXPECT_NEAR(weights(1) / weights(1999), 20.085537, 2e-3);
  // The same at an earlier query: its own key against the sink.
  const kv::RowMatrix earlier = kv::attention_weights(layer[0].q_post.topRows(1), {layer[0].q_positions.front()},
                                                      layer[0].k_post, 2000, layer[0].attention_scale);
  EXPECT_NEAR(earlier(0, 0) / earlier(0, layer[0].q_positions.front()), 20.085537, 2e-3);
}

TEST(Synthetic, RopePairRepeatsWithItsWavelength) {
  SyntheticSpec spec;
  spec.kind = Kind::rope;
  spec.tokens = 1024;
  spec.head_dim = 8;
  spec.strength = 2;
  // Pair 1 of d = 8: wavelength 2 pi theta^(2/8) = 64 for theta = (64 / 2 pi)^4.
  spec.pair = 1;
  spec.theta = std::pow(64 / (2 * std::numbers::pi), 4);
  const Eigen::VectorXd weights = last_query_weights(make_synthetic(spec).load_layer(0)[0]);
  for (std::int64_t j = 64; j < 1024; ++j) EXPECT_NEAR(weights(j) / weights(j - 64), 1, 2e-5) << j;
  // Crest (distance 64) against trough (distance 32): e^(2 - -2) = e^4 = 54.59815.
  EXPECT_NEAR(weights(1023 - 64) / weights(1023 - 32), 54.59815, 5e-3);
}

TEST(Synthetic, Ar1LogitsHaveTheirDeviationAndCorrelation) {
  SyntheticSpec spec;
  spec.kind = Kind::ar1;
  spec.tokens = 60'000;
  spec.correlation = 0.9;
  spec.deviation = 1.5;
  const Eigen::VectorXd weights = last_query_weights(make_synthetic(spec).load_layer(0)[0]);
  const Eigen::ArrayXd x = weights.array().log() - weights.array().log().mean();
  // Effective sample (1 - phi^2) / (1 + phi^2) * N = 6,298 for the variance: sd sqrt(2 / 6298) = 1.8 % of 2.25; and
  // sd sqrt((1 - phi^2) / N) = 0.0018 for the correlation. Four standard deviations each.
  const double variance = x.square().mean();
  EXPECT_NEAR(variance, 2.25, 4 * 0.018 * 2.25);
  const double lagged = (x.head(59'999) * x.tail(59'999)).mean();
  EXPECT_NEAR(lagged / variance, 0.9, 4 * 0.0018);
}

TEST(Synthetic, AttentionFollowsTheKnownLogitsOfEveryKind) {
  for (const Kind kind : {Kind::uniform, Kind::needle, Kind::recency, Kind::ar1, Kind::rope}) {
    SyntheticSpec spec;
    spec.kind = kind;
    spec.tokens = 300;
    spec.layers = 2;
    spec.query_heads = 4;
    spec.kv_heads = 2;
    spec.strength = 3;
    spec.half_life = 40;
    const kv::LayerTensors layer = make_synthetic(spec).load_layer(1);
    ASSERT_EQ(layer.size(), 2U);
    for (std::int64_t kv_head = 0; kv_head < 2; ++kv_head) {
      const kv::HeadTensors& head = layer[static_cast<std::size_t>(kv_head)];
      EXPECT_EQ(head.group_size, 2);
      const kv::RowMatrix weights =
          kv::attention_weights(head.q_post, head.q_positions, head.k_post, 300, head.attention_scale);
      for (const std::int64_t row : {std::int64_t{0}, weights.rows() - 1}) {
        const std::int64_t p = head.q_positions[static_cast<std::size_t>(row % head.num_queries())];
        double sum = 0;
        for (std::int64_t j = 0; j <= p; ++j) sum += std::exp(known_logit(spec, 1, kv_head, p, j));
        for (std::int64_t j = 0; j <= p; ++j) {
          const double wanted = std::exp(known_logit(spec, 1, kv_head, p, j)) / sum;
          EXPECT_NEAR(weights(row, j), wanted, 2e-5 * wanted + 1e-8) << to_string(kind) << " " << p << " " << j;
        }
      }
    }
  }
}

TEST(Synthetic, SeedAndHeadDecideTheNoiseAndLengthDoesNot) {
  SyntheticSpec spec;
  spec.kv_heads = spec.query_heads = 2;
  spec.layers = 2;
  spec.tokens = 200;
  const Trace trace = make_synthetic(spec);
  const kv::LayerTensors layer = trace.load_layer(0);
  EXPECT_EQ(layer[0].v, trace.load_layer(0)[0].v);
  EXPECT_NE(layer[0].v, layer[1].v);
  EXPECT_NE(layer[0].v, trace.load_layer(1)[0].v);
  spec.tokens = 300;
  EXPECT_EQ(make_synthetic(spec).load_layer(0)[0].v.topRows(200), layer[0].v);
  spec.tokens = 200;
  spec.seed = 2;
  EXPECT_NE(make_synthetic(spec).load_layer(0)[0].v, layer[0].v);
}

TEST(Synthetic, WrittenTraceKeepsItsAttentionToFloat16) {
  SyntheticSpec spec;
  spec.kind = Kind::recency;
  spec.tokens = 3000;
  spec.half_life = 30;
  const Trace trace = make_synthetic(spec);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("kvtide-synthetic-" + std::to_string(::getpid()) + ".h5")).string();
  write_trace(path, trace);
  const Trace read = Trace::open(path);
  EXPECT_THAT(check_trace(path), testing::IsEmpty());
  EXPECT_EQ(read.info().num_context, trace.info().num_context);
  EXPECT_EQ(read.query_positions(0), trace.query_positions(0));
  // Two key channels keep a logit to 2^-22 of itself (69 at most here): exp errs by 2e-5.
  const Eigen::VectorXd a = last_query_weights(trace.load_layer(0)[0]);
  const Eigen::VectorXd b = last_query_weights(read.load_layer(0)[0]);
  for (std::int64_t j = 2000; j < 3000; ++j) EXPECT_NEAR(b(j) / a(j), 1, 5e-5) << j;
  std::filesystem::remove(path);
}

TEST(Synthetic, ParametersAreRefusedOutsideTheirBounds) {
  SyntheticSpec spec;
  const auto with = [&](auto change) {
    SyntheticSpec changed = spec;
    change(changed);
    return refusal(changed);
  };
  EXPECT_EQ(refusal(spec), "accepted");
  EXPECT_THAT(with([](SyntheticSpec& s) { s.tokens = 1; }), HasSubstr("synthetic.tokens: expected 2..1048576, got 1"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.tokens = kMaxTraceTokens + 1; }), HasSubstr("synthetic.tokens"));
  EXPECT_EQ(with([](SyntheticSpec& s) { s.tokens = kMaxTraceTokens; }),
            "accepted");  // nothing is made until it is asked for
  EXPECT_THAT(with([](SyntheticSpec& s) { s.query_heads = 3, s.kv_heads = 2; }),
              HasSubstr("a multiple of kv_heads (2)"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.head_dim = 63; }), HasSubstr("an even number"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.queries = 31; }), HasSubstr("synthetic.queries: expected 32..4096"));
  EXPECT_EQ(with([](SyntheticSpec& s) { s.queries = 32; }), "accepted");
  EXPECT_THAT(with([](SyntheticSpec& s) { s.correlation = 1; }), HasSubstr("synthetic.correlation"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.half_life = 0; }), HasSubstr("synthetic.half_life"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.strength = NAN; }), HasSubstr("synthetic.strength"));
  EXPECT_THAT(with([](SyntheticSpec& s) { s.pair = 32; }), HasSubstr("synthetic.pair: expected -1..31"));
  spec.kind = Kind::needle;  // context is 4064 tokens
  EXPECT_EQ(with([](SyntheticSpec& s) { s.needle_start = 4063; }), "accepted");
  EXPECT_THAT(with([](SyntheticSpec& s) { s.needle_start = 4064; }), HasSubstr("synthetic.needle_start"));
  EXPECT_THROW((void)synthetic_kind("needles"), InputError);
  for (const Kind kind : {Kind::uniform, Kind::needle, Kind::recency, Kind::ar1, Kind::rope})
    EXPECT_EQ(synthetic_kind(std::string(to_string(kind))), kind);
}

}  // namespace
}  // namespace kvtide::attention
