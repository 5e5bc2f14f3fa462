#include "loss/loss_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kv/attention_weights.h"
#include "loss/hand_made_heads.h"
#include "loss/head_comparison.h"

namespace kvtide::loss {
namespace {

using ::testing::Each;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

HeadReference reference_of(const kv::HeadTensors& head) {
  return make_head_reference(head, {0, head.q_positions.back()});
}

TEST(AttentionReference, MatchesTheSharedFloatSoftmaxAndSumsToOne) {
  const kv::HeadTensors head = white_head(40, 6, 8);
  const HeadReference reference = reference_of(head);
  const kv::RowMatrix weights =
      kv::attention_weights(head.q_post, head.q_positions, head.k_post, 40, head.attention_scale);
  EXPECT_LT((reference.weights - weights.cast<double>()).cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_NEAR(sum(reference.attention), 1.0, 1e-12);
}

TEST(AttentionReference, QuerySeesNoLaterKey) {
  kv::HeadTensors head = white_head(4, 2, 4);
  head.q_positions = {1, 3};
  const HeadReference reference = reference_of(head);
  EXPECT_EQ(reference.weights(0, 2), 0.0);
  EXPECT_EQ(reference.weights(0, 3), 0.0);
  EXPECT_GT(reference.weights(0, 1), 0.0);
  EXPECT_GT(reference.weights(1, 3), 0.0);
}

TEST(AttentionReference, MeasuresOnlyTheQueriesAskedForOfEveryQueryHead) {
  kv::HeadTensors head = white_head(8, 6, 4);
  head.group_size = 2;  // two query heads of three queries
  head.q_positions = {8, 9, 10};
  const HeadReference reference = make_head_reference(head, {9, 10});
  ASSERT_EQ(reference.num_rows(), 4);
  EXPECT_EQ(reference.row_positions, (std::vector<std::int64_t>{9, 10, 9, 10}));
  EXPECT_EQ(reference.q.row(2), head.q_post.row(4));  // query head 1, query 1 of 0..2
}

TEST(AttentionReference, RefusesQueriesThatWereNotRecorded) {
  const kv::HeadTensors head = white_head(8, 2, 4);  // queries at 8 and 9
  EXPECT_NO_THROW((void)make_head_reference(head, {9, 20}));
  EXPECT_THROW((void)make_head_reference(head, {10, 20}), InputError);
}

TEST(AttentionReference, RefusesScoresThatAreNotFinite) {
  kv::HeadTensors head = white_head(8, 1, 4);
  head.k_post(3, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)reference_of(head), InputError);
}

TEST(AttentionReference, RefusesLayersOfDifferentLength) {
  AttentionReference reference({0, 100});
  reference.add_layer({white_head(8, 1, 4)});
  EXPECT_THROW(reference.add_layer({white_head(9, 1, 4)}), InputError);
}

// Case Q6 and T19: nothing compressed, nothing lost, to the last bit.
TEST(LossMeter, IdentityLosesExactlyNothing) {
  const kv::HeadTensors head = white_head(96, 5, 16);
  const HeadLoss loss = measure_head(reference_of(head), identity_cache(head));
  for (const auto* profile :
       {&loss.lost_mass, &loss.mass_loss, &loss.output_loss, &loss.output_loss_signed, &loss.bits_lost}) {
    EXPECT_THAT(*profile, Each(0.0));
  }
  EXPECT_EQ(loss.output_error, 0.0);
}

TEST(LossMeter, QueryBeforeTheFirstChangeLosesExactlyNothing) {
  kv::HeadTensors head = white_head(32, 1, 8);
  head.q_positions = {15};
  const HeadLoss loss = measure_head(reference_of(head), evict(head, [](std::int64_t j) { return j < 16; }));
  EXPECT_THAT(loss.lost_mass, Each(0.0));
  EXPECT_EQ(loss.output_error, 0.0);
}

// T1: uniform attention, every other block of 32 evicted: M is 0 in kept blocks, 1 in evicted ones.
TEST(LossMeter, EvictedBlocksOfUniformAttentionAreASquareWave) {
  const kv::HeadTensors head = uniform_head(256, 4);
  const HeadLoss loss = measure_head(reference_of(head), evict(head, [](std::int64_t j) { return j / 32 % 2 == 0; }));
  for (std::size_t j = 0; j < 256; ++j) {
    ASSERT_EQ(loss.mass_loss[j], j / 32 % 2 == 0 ? 0.0 : 1.0) << j;
    ASSERT_NEAR(loss.lost_mass[j], j / 32 % 2 == 0 ? 0.0 : 1.0 / 256, 1e-15) << j;
  }
}

// T2: kept share f of i.i.d. zero-mean values under uniform attention. o is the mean of N values, ohat of the kept fN:
// E|o - ohat|^2 / E|o|^2 = (1/(fN) - 1/N) / (1/N) = (1 - f)/f.
TEST(LossMeter, UniformEvictionHasRelativeErrorRootOfRemovedOverKept) {
  for (const auto& [kept_of_four, expected] :
       {std::pair{1, std::sqrt(3.0)}, std::pair{2, 1.0}, std::pair{3, std::sqrt(1.0 / 3)}}) {
    double error_squared = 0;
    double norm_squared = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const kv::HeadTensors head = uniform_head(1024, 64, seed);
      const HeadReference reference = reference_of(head);
      const kv::HeadCache cache = evict(head, [kept = kept_of_four](std::int64_t j) { return j % 4 < kept; });
      const HeadComparison comparison = compare_head(reference, cache, true);
      error_squared += (reference.outputs - comparison.outputs).squaredNorm();
      norm_squared += reference.outputs.squaredNorm();
    }
    // 20 x 64 independent components: the ratio is known to about 1/sqrt(1280) = 3 %.
    EXPECT_NEAR(std::sqrt(error_squared / norm_squared), expected, 0.08 * expected);
  }
}

// T3: o - ohat = m (mean of evicted values - mean of kept values), each weighted by attention within its own set.
TEST(LossMeter, EvictionErrorIsLostMassTimesDistanceOfMeans) {
  const kv::HeadTensors head = white_head(64, 3, 8);
  const HeadReference reference = reference_of(head);
  const auto kept = [](std::int64_t j) { return j % 5 != 2; };
  const HeadComparison comparison = compare_head(reference, evict(head, kept), true);
  for (std::int64_t row = 0; row < 3; ++row) {
    Eigen::RowVectorXd evicted_mean = Eigen::RowVectorXd::Zero(8);
    Eigen::RowVectorXd kept_mean = Eigen::RowVectorXd::Zero(8);
    double mass = 0;
    for (std::int64_t j = 0; j < 64; ++j) {
      const Eigen::RowVectorXd term = reference.weights(row, j) * head.v.row(j).cast<double>();
      (kept(j) ? kept_mean : evicted_mean) += term;
      mass += kept(j) ? 0.0 : reference.weights(row, j);
    }
    const Eigen::RowVectorXd expected = mass * (evicted_mean / mass - kept_mean / (1 - mass));
    EXPECT_LT((reference.outputs.row(row) - comparison.outputs.row(row) - expected).norm(), 1e-14);
    EXPECT_NEAR(comparison.mass_ratio(row), 1 - mass, 1e-14);
  }
}

// T4: the signed output loss adds up to the mean of E^2 for every policy.
TEST(LossMeter, SignedOutputLossAddsUpToTheSquaredError) {
  const kv::HeadTensors head = white_head(64, 7, 8);
  const HeadReference reference = reference_of(head);
  kv::HeadCache stacked = pool(head, 8, 40, 4, std::log(4.0F));
  for (std::size_t j = 44; j < 50; ++j) stacked.entries->entry_of[j] = -1;
  stacked.entries->v(60, 3) += 0.25F;
  const std::vector<kv::HeadCache> caches = {evict(head, [](std::int64_t j) { return j % 3 != 0; }),
                                             round_rows(head, 4), pool(head, 0, 64, 8, 0.0F), stacked};
  for (const kv::HeadCache& cache : caches) {
    const HeadLoss loss = measure_head_in_float64(reference, cache);
    EXPECT_GT(loss.output_error_squared, 1e-4);
    EXPECT_NEAR(sum(loss.output_loss_signed), loss.output_error_squared, 1e-13);
    EXPECT_GE(*std::min_element(loss.output_loss.begin(), loss.output_loss.end()), 0.0);
  }
}

TEST(LossMeter, SignedOutputLossStaysAdditiveForQueriesInsideThePools) {
  kv::HeadTensors head = white_head(64, 5, 8);
  head.q_positions = {10, 17, 33, 34, 63};  // 10, 17, 33 and 34 lie inside pools of 4 that begin at 8, 16 and 32
  const HeadLoss loss = measure_head(reference_of(head), pool(head, 0, 64, 4, std::log(4.0F)));
  EXPECT_GT(loss.output_error_squared, 1e-4);
  EXPECT_NEAR(sum(loss.output_loss_signed), loss.output_error_squared, 1e-13);
}

// T6: key noise of variance D an element turns into logit noise |q| sqrt(D scale^2) = |q| sqrt(D / d).
TEST(LossMeter, KeyNoiseBecomesLogitNoise) {
  constexpr double kNoise = 0.0061;  // int4 in groups of 32, squared error of a unit Gaussian
  kv::HeadTensors head = white_head(4096, 1, 64);
  head.q_post *= static_cast<float>(8 / head.q_post.norm());  // |q|^2 = d = 64
  const HeadReference reference = reference_of(head);
  kv::HeadCache cache = identity_cache(head);
  RandomStream random(3, "test.key_noise");
  for (std::int64_t i = 0; i < cache.entries->k.size(); ++i) {
    cache.entries->k.data()[i] += static_cast<float>(std::sqrt(kNoise) * random.normal());
  }
  const HeadComparison comparison = compare_head(reference, cache, false);
  double squares = 0;
  for (std::int64_t j = 0; j < 4096; ++j) {
    squares += std::pow(std::log(comparison.entry_weights(0, j) / reference.weights(0, j)), 2);
  }
  EXPECT_NEAR(std::sqrt(squares / 4096), std::sqrt(kNoise), 0.003);  // sqrt(0.0061) = 0.078
}

// T9: half of a uniform context pooled at width w without mass correction. N/2 keys stay, N/(2w) pools join them with
// the weight of one key each: share 1/(1 + w). A bias of ln w restores one half.
TEST(LossMeter, PoolWithoutMassCorrectionSharesOneOverOnePlusWidth) {
  const kv::HeadTensors head = uniform_head(128, 4);
  const HeadReference reference = reference_of(head);
  const auto pooled_share = [&](float bias) {
    const HeadComparison comparison = compare_head(reference, pool(head, 0, 64, 8, bias), false);
    return comparison.entry_weights.row(0).sum() / comparison.mass_ratio(0);
  };
  EXPECT_NEAR(pooled_share(0), 1.0 / 9, 1e-6);
  EXPECT_NEAR(pooled_share(std::log(8.0F)), 0.5, 1e-6);
}

TEST(LossMeter, PoolTakesMassFromItsMembersInTheirOwnProportion) {
  const kv::HeadTensors head = uniform_head(128, 4);
  const HeadLoss loss = measure_head(reference_of(head), pool(head, 0, 64, 8, 0.0F));
  // Half the mass was there, 1/9 is left: each member lost 1 - (1/9)/(1/2) = 7/9; the others gained.
  EXPECT_NEAR(loss.mass_loss[13], 7.0 / 9, 1e-6);
  EXPECT_EQ(loss.mass_loss[100], 0.0);
}

/// One key whose logit exceeds all others' by `advantage`.
kv::HeadTensors needle_head(std::int64_t positions, std::int64_t needle, double advantage) {
  kv::HeadTensors head = empty_head(positions, 1, 2);
  head.attention_scale = 1;
  head.q_post(0, 0) = 1;
  head.k_post(needle, 0) = static_cast<float>(advantage);
  head.v.col(1).setOnes();
  return head;
}

// T15: a* = e^D / (e^D + N - 1): one half at D = ln(N - 1); keeping half of the distractors lowers that D by ln 2.
TEST(LossMeter, NeedleHoldsHalfTheMassAtLogOfDistractors) {
  const double half = std::log(4095.0);
  EXPECT_NEAR(half, 8.318, 5e-4);
  EXPECT_NEAR(reference_of(needle_head(4096, 1000, half)).weights(0, 1000), 0.5, 1e-6);
  const kv::HeadTensors head = needle_head(4096, 1000, half - std::log(2.0));
  const HeadComparison comparison =
      compare_head(reference_of(head), evict(head, [](std::int64_t j) { return j == 1000 || j % 2 == 1; }), false);
  // e^D = 4095/2 beside 2,048 kept distractors: 2047.5 / 4095.5.
  EXPECT_NEAR(reference_of(head).weights(0, 1000) / comparison.mass_ratio(0), 2047.5 / 4095.5, 1e-6);
}

// T16: in a pool of w with b = ln w the needle's logit is D/w: a = w e^(D/w) / (w e^(D/w) + N - w).
TEST(LossMeter, NeedleInAPoolIsDilutedByTheWidth) {
  const kv::HeadTensors head = needle_head(4096, 1000, 12);
  const HeadReference reference = reference_of(head);
  EXPECT_NEAR(reference.weights(0, 1000), std::exp(12.0) / (std::exp(12.0) + 4095), 1e-6);  // 0.975
  const kv::HeadCache cache = pool(head, 1000, 1008, 8, std::log(8.0F));
  const HeadComparison comparison = compare_head(reference, cache, false);
  const double top = 8 * std::exp(1.5);
  EXPECT_NEAR(comparison.entry_weights(0, 0) / comparison.mass_ratio(0), top / (top + 4088), 1e-6);  // 0.0087
  const HeadLoss loss = measure_head(reference, cache);
  EXPECT_GT(loss.mass_loss[1000], 0.99);
}

TEST(LossMeter, EverythingEvictedLosesEverything) {
  const kv::HeadTensors head = white_head(16, 2, 4);
  const HeadLoss loss = measure_head(reference_of(head), evict(head, [](std::int64_t) { return false; }));
  EXPECT_THAT(loss.mass_loss, Each(1.0));
  EXPECT_NEAR(sum(loss.lost_mass), 1.0, 1e-12);
  EXPECT_NEAR(loss.output_error, 1.0, 1e-12);
}

TEST(LossMeter, ReaderWeighsHeadsByWhatTheyRead) {
  // Head A puts 0.8 on position 0 and loses it, head B puts 0.2 there and keeps it.
  const auto two_keys = [](double first) {
    kv::HeadTensors head = empty_head(2, 1, 2);
    head.attention_scale = 1;
    head.q_post(0, 0) = 1;
    head.k_post(0, 0) = static_cast<float>(std::log(first / (1 - first)));
    head.v.setOnes();
    return head;
  };
  const kv::HeadTensors a = two_keys(0.8);
  const kv::HeadTensors b = two_keys(0.2);
  AttentionReference reference({0, 10});
  reference.add_layer({a, b});
  const std::vector<kv::LayerCache> caches = {{{evict(a, [](std::int64_t j) { return j == 1; }), identity_cache(b)}}};
  const auto at_zero = [&](HeadReduction reduction) { return measure_loss(reference, caches, reduction); };
  EXPECT_NEAR(at_zero(HeadReduction::reader).mass_loss[0], 0.8, 1e-6);  // 0.8 / (0.8 + 0.2)
  EXPECT_NEAR(at_zero(HeadReduction::mean).mass_loss[0], 0.5, 1e-12);   // (1 + 0) / 2
  EXPECT_NEAR(at_zero(HeadReduction::max).mass_loss[0], 1.0, 1e-12);
  const PositionLoss loss = at_zero(HeadReduction::reader);
  EXPECT_NEAR(loss.lost_attention, 0.4, 1e-6);  // (0.8 + 0) / 2
  EXPECT_NEAR(loss.lost_mass[0], 0.4, 1e-6);
  // The attention-weighted mean of L is the lost attention.
  EXPECT_NEAR(loss.mass_loss[0] * loss.attention[0] + loss.mass_loss[1] * loss.attention[1], loss.lost_attention,
              1e-12);
}

}  // namespace
}  // namespace kvtide::loss
