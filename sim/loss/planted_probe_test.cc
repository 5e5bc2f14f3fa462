#include "loss/planted_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kv/compression/evicted_runs.h"
#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPositions = 128;

/// One head of uniform attention; blocks of 16 by the scores, half of them kept.
struct Fixture {
  explicit Fixture(double scoring_margin) {
    const kv::HeadTensors head = uniform_head(kPositions, 64);
    measured.add_layer({head});
    scoring.add_layer({head});
    setting.block_size = 16;
    setting.sinks = 0;
    setting.window = 0;
    setting.stages = {kv::Evict{}};
    inputs.measured = &measured;
    inputs.scoring = &scoring;
    inputs.scoring_margin = {scoring_margin};
    for (std::int64_t begin = 0; begin < kPositions; begin += 16) inputs.cell_begins.push_back(begin);
    inputs.num_positions = kPositions;
    inputs.evict = [this](std::int64_t, const kv::LayerScores& scores) {
      return kv::evicted_runs(setting, kPositions, scores);
    };
  }
  AttentionReference measured{{0, 10 * kPositions}};
  AttentionReference scoring{{0, 10 * kPositions}};
  kv::Compression setting;
  ProbeInputs inputs;
};

ProbeSpec every_position(ProbeKind kind, std::int64_t span) {
  return {.kind = kind, .span = span, .margin = 12, .step = 1, .spacing = 32, .codes = 16};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// T15: half of the attention at D = ln(N - 1); half of the others gone: e^D / (e^D + (N - 1) / 2) = 2/3.
// T16's first figure: D = 12 among 4,095 others 0.975.
TEST(PlantedProbe, NeedleAttentionInClosedForm) {
  EXPECT_NEAR(needle_attention(std::log(4095.0), 4095), 0.5, 1e-12);
  EXPECT_NEAR(needle_attention(std::log(4095.0), 4095 / 2.0), 2.0 / 3, 1e-12);
  EXPECT_NEAR(needle_attention(12, 4095), 0.975, 5e-4);
}

// Equal scores keep the first four of eight blocks (ties: the earlier). A fact that scores see as one of many is found
// exactly where all of its 4 tokens lie in 0..63: at 0..60 of the 125 places.
TEST(PlantedProbe, FactNeedsAllOfItsTokens) {
  Fixture fixture(0);
  const ProbeScan scan = scan_planted_probe(every_position(ProbeKind::factual, 4), fixture.inputs);
  ASSERT_EQ(scan.position.size(), 125u);
  for (std::size_t place = 0; place < scan.position.size(); ++place) {
    EXPECT_EQ(scan.success[place], place <= 60 ? 1 : 0) << place;
    EXPECT_EQ(scan.full_success[place], 1) << place;
  }
  EXPECT_GT(scan.margin[0], 0);
  EXPECT_LT(scan.margin[61], 0);
  // e^12 / (e^12 + 128 (1 - 1/128 - 1/2)) with 63 others kept.
  EXPECT_NEAR(scan.mass[0], needle_attention(12, 128 * (1 - 1.0 / 128 - 0.5)), 1e-9);
  EXPECT_EQ(scan.bits[0], 0);
  EXPECT_NEAR(scan.bits[62], 12.23 / 2, 1e-9);  // two of four tokens gone
}

// A keyword needs one of its tokens: also found at 61, 62 and 63. Behind, its answer is one of 16 by chance: 61 places, 3.8
// expected, sd 1.9, four of them.
TEST(PlantedProbe, KeywordNeedsAnyToken) {
  Fixture fixture(0);
  const ProbeScan scan = scan_planted_probe(every_position(ProbeKind::keyword, 4), fixture.inputs);
  for (std::size_t place = 0; place <= 63; ++place) EXPECT_EQ(scan.success[place], 1) << place;
  EXPECT_LT(std::accumulate(scan.success.begin() + 64, scan.success.end(), 0.0), 12);
}

// Two facts 32 apart: the second leaves 0..63 first, from 61 - 32 = 29 on. Four needles: 1, then 1/2, 1/4, ...
TEST(PlantedProbe, FactsOfOneProbeAreJudgedTogether) {
  Fixture fixture(0);
  const ProbeScan two = scan_planted_probe(every_position(ProbeKind::reasoning, 4), fixture.inputs);
  EXPECT_EQ(two.success[28], 1);
  EXPECT_EQ(two.success[29], 0);
  const ProbeScan four = scan_planted_probe(every_position(ProbeKind::multi_needle, 4), fixture.inputs);
  EXPECT_EQ(four.success[0], 0.5);  // at 0, 32, 64 and 96
}

// The policy decides anew: queries that see the fact keep its block wherever it lies, as long as all of it lies there.
TEST(PlantedProbe, PolicyThatSeesTheFactKeepsItsBlock) {
  Fixture fixture(12);
  const ProbeScan scan = scan_planted_probe(every_position(ProbeKind::factual, 1), fixture.inputs);
  EXPECT_EQ(mean(scan.success), 1);
}

// Without the fact each token's code is one of 16 by chance. 125 places, the 128 positions' codes: sd of the share
// sqrt(1/16 * 15/16 / 128) = 0.021, three of them.
TEST(PlantedProbe, ControlFallsToChance) {
  Fixture fixture(0);
  const ProbeScan scan = scan_planted_probe(every_position(ProbeKind::factual, 1), fixture.inputs);
  EXPECT_NEAR(mean(scan.control_success), 1.0 / 16, 0.065);
}

/// Uniform attention, and queries at positions 0..num_queries-1; nothing is evicted.
struct AskedFromWithin {
  AskedFromWithin(std::int64_t num_positions, std::int64_t num_queries) {
    kv::HeadTensors head = uniform_head(num_positions, 64);
    head.q_post = kv::RowMatrix::Zero(num_queries, 64);
    head.q_positions.resize(static_cast<std::size_t>(num_queries));
    std::iota(head.q_positions.begin(), head.q_positions.end(), std::int64_t{0});
    measured.add_layer({head});
    inputs.measured = &measured;
    inputs.fixed_scores.resize(1);
    inputs.cell_begins = {0};
    inputs.num_positions = num_positions;
    inputs.evict = [](std::int64_t, const kv::LayerScores&) { return std::vector<kv::PositionRuns>(1); };
  }
  AttentionReference measured{{0, 10'000}};
  ProbeInputs inputs;
};

// 512 keys and queries, D = 6 (e^6 = 403.43). Row r sees r others, so that a token at 400 is read by rows 400..511 alone, each with
// f(r) = 403.43 / (403.43 + r). Mean over these 112: f(455.5) = 0.46969 and half of f'' = 2 * 403.43 / 858.93^3 times their
// variance (112^2 - 1) / 12, which is 0.00067. The last token is read by the last row: f(511).
TEST(PlantedProbe, OnlyQueriesBehindAPlaceReadIt) {
  const AskedFromWithin asked(512, 512);
  const ProbeSpec spec{.kind = ProbeKind::keyword, .span = 1, .margin = 6, .step = 1, .spacing = 1, .codes = 16};
  const ProbeScan scan = scan_planted_probe(spec, asked.inputs);
  EXPECT_NEAR(scan.mass[400], 0.46969 + 0.00067, 2e-5);
  EXPECT_NEAR(scan.mass[511], 403.43 / (403.43 + 511), 1e-5);
}

// Queries all stand before the second half: nobody reads what is there, nor would they with the full cache.
TEST(PlantedProbe, WhatNoQueryComesAfterIsReadByNone) {
  const AskedFromWithin asked(kPositions, kPositions / 2);
  const ProbeScan scan = scan_planted_probe(every_position(ProbeKind::factual, 1), asked.inputs);
  EXPECT_EQ(scan.success[63], 1);
  EXPECT_EQ(scan.success[64], 0);
  EXPECT_EQ(scan.full_success[64], 0);
  EXPECT_EQ(scan.mass[64], 0);
}

// A margin too small to be read says so before anything is compressed: e^-5 against 127 others.
TEST(PlantedProbe, WeakProbeFailsWithTheFullCacheToo) {
  Fixture fixture(0);
  ProbeSpec weak = every_position(ProbeKind::factual, 4);
  weak.margin = -5;
  EXPECT_LT(mean(scan_planted_probe(weak, fixture.inputs).full_success), 0.1);
}

// Two heads keep opposite halves: one reader is hit wherever its own half ends, two vote together and are never hit.
TEST(PlantedProbe, TheHeadsThatReadDecide) {
  const kv::HeadTensors head = uniform_head(kPositions, 64);
  AttentionReference measured({0, 10 * kPositions});
  measured.add_layer({head, head});
  ProbeInputs inputs;
  inputs.measured = &measured;
  inputs.fixed_scores.resize(1);
  inputs.cell_begins = {0};
  inputs.num_positions = kPositions;
  inputs.evict = [](std::int64_t, const kv::LayerScores&) {
    return std::vector<kv::PositionRuns>{{{64, 128}}, {{0, 64}}};
  };
  ProbeSpec spec = every_position(ProbeKind::factual, 1);
  inputs.reading = {{1, 0}};
  EXPECT_EQ(scan_planted_probe(spec, inputs).success[10], 1);
  EXPECT_EQ(scan_planted_probe(spec, inputs).bits[100], 12.23);
  inputs.reading = {{0, 1}};
  EXPECT_EQ(scan_planted_probe(spec, inputs).success[100], 1);
  EXPECT_EQ(scan_planted_probe(spec, inputs).bits[10], 12.23);
  spec.readers = 0;
  EXPECT_EQ(mean(scan_planted_probe(spec, inputs).success), 1);
}

TEST(PlantedProbe, RefusesWhatDoesNotFit) {
  Fixture fixture(0);
  ProbeSpec spec = every_position(ProbeKind::factual, kPositions);
  EXPECT_EQ(scan_planted_probe(spec, fixture.inputs).position.size(), 1u);
  spec.span = kPositions + 1;
  EXPECT_THROW((void)scan_planted_probe(spec, fixture.inputs), InputError);
  spec = every_position(ProbeKind::reasoning, 40);  // facts would overlap at a spacing of 32
  EXPECT_THROW((void)scan_planted_probe(spec, fixture.inputs), InputError);
}

}  // namespace
}  // namespace kvtide::loss
