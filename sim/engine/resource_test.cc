#include "engine/resource.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "engine/testing/picoseconds_literal.h"

namespace kvtide::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Log = std::vector<std::string>;

struct Job {
  std::string name;
  Picoseconds arrival;
  Picoseconds service;
  std::uint64_t units = 1;
  std::int32_t priority = 0;
};

/// Arrives, waits for its units, holds them for the service time; notes "name+time" at the grant, "name-time" at the
/// release.
Process serve(Simulation& simulation, Resource& resource, Job job, Log& log) {
  co_await simulation.delay(job.arrival);
  const Hold hold = co_await resource.request(job.units, job.priority);
  log.push_back(job.name + "+" + std::to_string(simulation.now().count()));
  co_await simulation.delay(job.service);
  log.push_back(job.name + "-" + std::to_string(simulation.now().count()));
}

class ResourceTest : public testing::Test {
 protected:
  ProcessHandle start(Job job) { return simulation_.start(serve(simulation_, resource_, std::move(job), log_)); }
  Simulation simulation_;
  Log log_;
  Resource resource_{simulation_, 2};
};

TEST_F(ResourceTest, FirstComeFirstServed) {
  // Two units. a holds 0..10, b 1..4; c asks at 2, d at 3: c gets b's unit at 4 (until 9), d waits for c: 9..10.
  start({"a", 0_ps, 10_ps});
  start({"b", 1_ps, 3_ps});
  start({"c", 2_ps, 5_ps});
  start({"d", 3_ps, 1_ps});
  simulation_.run_until(3_ps);
  EXPECT_EQ(resource_.num_free(), 0U);
  EXPECT_EQ(resource_.num_waiting(), 2U);
  simulation_.run();
  // At 10 ps both a and d end; a scheduled its end at 0 ps, d at 9 ps.
  EXPECT_THAT(log_, ElementsAre("a+0", "b+1", "b-4", "c+4", "c-9", "d+9", "a-10", "d-10"));
  EXPECT_EQ(resource_.num_free(), 2U);
  EXPECT_EQ(resource_.num_waiting(), 0U);
}

TEST_F(ResourceTest, FreeUnitIsGrantedWithoutAWakeUp) {
  start({"a", 0_ps, 5_ps});
  simulation_.run();
  // Start, arrival, end of service; no event for the grant.
  EXPECT_EQ(simulation_.num_fired(), 3U);
}

TEST_F(ResourceTest, SmallerPriorityGoesFirstAndOrderOfAskingDecidesTheRest) {
  start({"a", 0_ps, 10_ps, 2});
  start({"late", 1_ps, 1_ps, 2, 5});
  start({"first", 2_ps, 1_ps, 2, 0});
  start({"second", 3_ps, 1_ps, 2, 0});
  start({"urgent", 4_ps, 1_ps, 2, -1});
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "a-10", "urgent+10", "urgent-11", "first+11", "first-12", "second+12",
                                "second-13", "late+13", "late-14"));
}

TEST_F(ResourceTest, NobodyOvertakesALargeRequestAtTheHeadOfTheLine) {
  // a holds 1 of 2 until 10. b wants 2 and waits; c wants 1, which is free, but waits behind b: b 10..12, c 12..13.
  start({"a", 0_ps, 10_ps, 1});
  start({"b", 1_ps, 2_ps, 2});
  start({"c", 2_ps, 1_ps, 1});
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "a-10", "b+10", "b-12", "c+12", "c-13"));
}

TEST_F(ResourceTest, CancellingTheHeadOfTheLineServesThoseItHeldUp) {
  start({"a", 0_ps, 10_ps, 1});
  const ProcessHandle large = start({"b", 1_ps, 2_ps, 2});
  start({"c", 2_ps, 1_ps, 1});
  simulation_.schedule_at(5_ps, [large] { large.cancel(); });
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "c+5", "c-6", "a-10"));
}

TEST_F(ResourceTest, CancellingTheHolderPassesItsUnitsOn) {
  const ProcessHandle holder = start({"a", 0_ps, 100_ps, 2});
  start({"b", 1_ps, 1_ps, 2});
  simulation_.schedule_at(7_ps, [holder] { holder.cancel(); });
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "b+7", "b-8"));
}

TEST_F(ResourceTest, UnitsGrantedToAProcessThatIsCancelledBeforeItWakesAreNotLost) {
  start({"a", 0_ps, 10_ps, 2});
  const ProcessHandle chosen = start({"b", 1_ps, 1_ps, 2});
  start({"c", 2_ps, 1_ps, 2});
  // a's release at 10 ps grants to b; this call runs at 10 ps too, between the grant and b's wake-up, because both a's
  // end (from 0 ps) and the call (now) are scheduled before the wake-up is.
  start({"d", 3_ps, 1_ps, 2});
  simulation_.run_until(9_ps);
  simulation_.schedule_at(10_ps, [chosen] { chosen.cancel(); });
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "a-10", "c+10", "c-11", "d+11", "d-12"));
  EXPECT_EQ(resource_.num_free(), 2U);
}

TEST_F(ResourceTest, ExceptionInTheHolderReleases) {
  const auto fail = [](Simulation& sim, Resource& resource) -> Process {
    const Hold hold = co_await resource.request(2);
    co_await sim.delay(1_ps);
    throw std::runtime_error("holder failed");
  };
  simulation_.start(fail(simulation_, resource_));
  EXPECT_THROW(simulation_.run(), std::runtime_error);
  EXPECT_EQ(resource_.num_free(), 2U);
}

TEST_F(ResourceTest, HoldMovesAndReleasesOnce) {
  Hold a = resource_.try_request(2);
  EXPECT_EQ(a.units(), 2U);
  EXPECT_EQ(resource_.try_request(1).units(), 0U);  // none free
  Hold b = std::move(a);
  EXPECT_EQ(b.units(), 2U);
  EXPECT_EQ(resource_.num_free(), 0U);
  b.release();
  b.release();
  EXPECT_EQ(resource_.num_free(), 2U);
  b = resource_.try_request(1);
  Hold c = resource_.try_request(1);
  b = std::move(c);  // gives back what b held
  EXPECT_EQ(resource_.num_free(), 1U);
}

TEST_F(ResourceTest, TryRequestDoesNotOvertakeTheLine) {
  start({"a", 0_ps, 10_ps, 1});
  start({"b", 1_ps, 2_ps, 2});
  simulation_.run_until(2_ps);
  EXPECT_EQ(resource_.num_free(), 1U);
  EXPECT_EQ(resource_.try_request(1).units(), 0U);
}

TEST_F(ResourceTest, UnitsOutsideOneToCapacityAreRefused) {
  EXPECT_THROW((void)resource_.request(0), InputError);
  EXPECT_THROW((void)resource_.request(3), InputError);
  EXPECT_THROW((void)resource_.try_request(3), InputError);
  EXPECT_NO_THROW((void)resource_.try_request(2));
  EXPECT_THROW(Resource(simulation_, 0), InputError);
}

TEST_F(ResourceTest, ContendedForLongNothingIsLostAndTheQueueIsFair) {
  // 10 processes of 1 unit, capacity 2, service 5 ps, 100 rounds each, asking again at once: 1000 services, two at a
  // time, take 1000 / 2 * 5 = 2500 ps, and fair turns end every process in the last five turns (of 5 ps each).
  Simulation simulation;
  Resource resource(simulation, 2);
  std::vector<std::int64_t> ends;
  const auto loop = [](Simulation& sim, Resource& units, std::vector<std::int64_t>& done) -> Process {
    for (int round = 0; round < 100; ++round) {
      const Hold hold = co_await units.request();
      co_await sim.delay(5_ps);
    }
    done.push_back(sim.now().count());
  };
  for (int i = 0; i < 10; ++i) simulation.start(loop(simulation, resource, ends));
  simulation.run();
  EXPECT_THAT(ends, ElementsAre(2480, 2480, 2485, 2485, 2490, 2490, 2495, 2495, 2500, 2500));
}

TEST_F(ResourceTest, ResourceMayDieBeforeHoldersAndWaiters) {
  Simulation simulation;
  auto resource = std::make_unique<Resource>(simulation, 1);
  simulation.start(serve(simulation, *resource, {"a", 0_ps, 10_ps}, log_));
  simulation.start(serve(simulation, *resource, {"b", 1_ps, 10_ps}, log_));
  simulation.run_until(5_ps);
  resource.reset();
  simulation.run();
  EXPECT_THAT(log_, ElementsAre("a+0", "a-10"));  // b waits forever
  EXPECT_EQ(simulation.num_processes(), 1U);
}

TEST_F(ResourceTest, SimulationMayDieWithHoldersAndAFullLine) {
  {
    Simulation simulation;
    Resource resource(simulation, 1);
    for (int i = 0; i < 50; ++i) simulation.start(serve(simulation, resource, {"x", 0_ps, 10_ps, 1, i % 3}, log_));
    simulation.run_until(5_ps);
    EXPECT_EQ(resource.num_waiting(), 49U);
  }
  std::optional<Simulation> simulation(std::in_place);
  Resource resource(*simulation, 1);  // this time the resource lives longer
  for (int i = 0; i < 50; ++i) simulation->start(serve(*simulation, resource, {"x", 0_ps, 10_ps, 1, i % 3}, log_));
  simulation->run_until(5_ps);
  simulation.reset();
  EXPECT_EQ(resource.num_free(), 1U);
  EXPECT_EQ(resource.num_waiting(), 0U);
}

}  // namespace
}  // namespace kvtide::engine
