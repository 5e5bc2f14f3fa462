#include "engine/reference_models.h"

#include <gtest/gtest.h>

namespace kvtide::engine::reference {
namespace {

// The expected figures are SimPy 4.1.2's, as printed by simpy_reference.py for the same models and sizes.

void expect_outcome(const Outcome& outcome, std::int64_t end_ps, std::uint64_t check) {
  EXPECT_EQ(outcome.end_ps, end_ps);
  EXPECT_EQ(outcome.check, check);
}

TEST(ReferenceModels, TimeoutsEndWhereSimPyEndsThem) {
  expect_outcome(run_timeouts(100, 2000), 1'043'516'706'837, 102'687'474'378'051U);
  expect_outcome(run_timeouts(1000, 200), 110'737'490'868, 102'721'173'263'413U);
}

TEST(ReferenceModels, CallbacksEndWhereProcessesDo) {
  expect_outcome(run_callbacks(1000, 200), 110'737'490'868, 102'721'173'263'413U);
}

TEST(ReferenceModels, WaitsForAContendedResourceAddUpAsInSimPy) {
  expect_outcome(run_resource(64, 4, 1000), 8'179'780'215'664, 457'564'085'984'881U);
}

TEST(ReferenceModels, ItemsLeaveTheStoreWhenTheyDoInSimPy) {
  expect_outcome(run_store(16, 8, 4000), 2'116'128'916'008, 2'703'947'429'826'485'633U);
}

}  // namespace
}  // namespace kvtide::engine::reference
