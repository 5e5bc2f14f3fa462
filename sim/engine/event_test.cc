#include "engine/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "engine/testing/picoseconds_literal.h"

namespace kvtide::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Log = std::vector<std::string>;

std::string at(const std::string& what, const Simulation& simulation) {
  return what + "@" + std::to_string(simulation.now().count());
}

Process wait_for(Simulation& simulation, Event& event, std::string name, Log& log) {
  co_await event.wait();
  log.push_back(at(name, simulation));
}

/// Notes which of two events came first.
Process race(Simulation& simulation, Event& a, Event& b, Log& log) {
  const std::size_t first = co_await any_of(a, b);
  log.push_back(at("first " + std::to_string(first), simulation));
}

Process gather(Simulation& simulation, Event& a, Event& b, Event& c, Log& log) {
  co_await all_of(a, b, c);
  log.push_back(at("all", simulation));
}

class EventTest : public testing::Test {
 protected:
  void trigger_at(Picoseconds time, Event& event) {
    simulation_.schedule_at(time, [&event] { event.trigger(); });
  }
  Simulation simulation_;
  Log log_;
  Event a_{simulation_};
  Event b_{simulation_};
  Event c_{simulation_};
};

TEST_F(EventTest, TriggerWakesAllInOrderOfWaitingAtItsInstant) {
  simulation_.start(wait_for(simulation_, a_, "x", log_));
  simulation_.start(wait_for(simulation_, a_, "y", log_));
  trigger_at(5_ps, a_);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("x@5", "y@5"));
}

TEST_F(EventTest, WaitersWakeAfterWhatTheInstantHadScheduledBefore) {
  simulation_.start(wait_for(simulation_, a_, "woken", log_));
  trigger_at(5_ps, a_);
  simulation_.schedule_at(5_ps, [this] { log_.push_back("before"); });
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("before", "woken@5"));
}

TEST_F(EventTest, WaitingForWhatHasHappenedGoesOnAtOnce) {
  EXPECT_TRUE(a_.trigger());
  EXPECT_FALSE(a_.trigger());  // the second time changes nothing
  simulation_.start(wait_for(simulation_, a_, "x", log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("x@0"));
  EXPECT_EQ(simulation_.num_fired(), 1U);  // the start of the process, no wake-up
}

TEST_F(EventTest, ResetMakesItWaitForTheNextTrigger) {
  a_.trigger();
  a_.reset();
  simulation_.start(wait_for(simulation_, a_, "x", log_));
  trigger_at(7_ps, a_);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("x@7"));
}

TEST_F(EventTest, AnyOfWakesOnceWithTheFirst) {
  simulation_.start(race(simulation_, a_, b_, log_));
  trigger_at(4_ps, b_);
  trigger_at(6_ps, a_);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("first 1@4"));
}

TEST_F(EventTest, AnyOfTriggeredTogetherIsDecidedByTheOrderOfTriggers) {
  simulation_.start(race(simulation_, a_, b_, log_));
  trigger_at(4_ps, b_);
  trigger_at(4_ps, a_);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("first 1@4"));
}

TEST_F(EventTest, AnyOfSeveralAlreadyTriggeredIsTheLowest) {
  b_.trigger();
  a_.trigger();
  simulation_.start(race(simulation_, a_, b_, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("first 0@0"));
}

TEST_F(EventTest, AllOfWakesWithTheLast) {
  b_.trigger();  // before the wait
  simulation_.start(gather(simulation_, a_, b_, c_, log_));
  trigger_at(9_ps, a_);
  trigger_at(2_ps, c_);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("all@9"));
}

TEST_F(EventTest, AllOfKeepsWaitingWhileOneIsMissing) {
  simulation_.start(gather(simulation_, a_, b_, c_, log_));
  a_.trigger();
  b_.trigger();
  simulation_.run();
  EXPECT_THAT(log_, IsEmpty());
  c_.trigger();
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("all@0"));
}

TEST_F(EventTest, NumberOfEventsMayBeKnownOnlyAtRunTime) {
  // 5 timeouts at 1, 2, ..., 5 ps, the first cancelled: the earliest left is number 1 at 2 ps, the last comes at 5 ps.
  const auto wait = [](Simulation& sim, Log& log) -> Process {
    std::vector<std::unique_ptr<Timeout>> timeouts;
    std::vector<Event*> events;
    for (int i = 1; i <= 5; ++i) {
      events.push_back(timeouts.emplace_back(std::make_unique<Timeout>(sim, Picoseconds{i})).get());
    }
    timeouts[0]->cancel();
    const std::size_t first = co_await any_of(events);
    log.push_back(at("first " + std::to_string(first), sim));
    events.erase(events.begin());
    co_await all_of(events);
    log.push_back(at("all", sim));
    co_await all_of(std::span<Event* const>{});  // nothing to wait for
    log.push_back(at("none", sim));
  };
  simulation_.start(wait(simulation_, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("first 1@2", "all@5", "none@5"));
}

TEST_F(EventTest, AnyOfNothingIsRefused) {
  EXPECT_THROW((void)any_of(std::span<Event* const>{}), InputError);
}

TEST_F(EventTest, TimeoutRacesWithAnEventAndIsWithdrawnWhenItLoses) {
  const auto wait = [](Simulation& sim, Event& event, Picoseconds limit, Log& log) -> Process {
    Timeout late(sim, limit);
    const bool is_late = co_await any_of(event, late) == 1;
    log.push_back(at(is_late ? "late" : "in time", sim));
  };
  trigger_at(10_ps, a_);
  simulation_.start(wait(simulation_, a_, 9_ps, log_));
  simulation_.start(wait(simulation_, a_, 11_ps, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("late@9", "in time@10"));
  EXPECT_EQ(simulation_.now(), 10_ps);  // nothing was left to happen at 11 ps
}

TEST_F(EventTest, CancelledWaiterIsNotWokenAndLeavesTheOthers) {
  const ProcessHandle x = simulation_.start(wait_for(simulation_, a_, "x", log_));
  simulation_.start(wait_for(simulation_, a_, "y", log_));
  simulation_.run();
  x.cancel();
  a_.trigger();
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("y@0"));
}

TEST_F(EventTest, WaiterCancelledBetweenTriggerAndWakeUpDoesNotWake) {
  const ProcessHandle x = simulation_.start(wait_for(simulation_, a_, "x", log_));
  simulation_.run();
  a_.trigger();
  EXPECT_EQ(simulation_.num_pending(), 1U);
  x.cancel();
  EXPECT_EQ(simulation_.num_pending(), 0U);
  simulation_.run();
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(EventTest, EventMayDieBeforeItsWaiters) {
  auto event = std::make_unique<Event>(simulation_);
  simulation_.start(wait_for(simulation_, *event, "x", log_));
  simulation_.start(race(simulation_, *event, b_, log_));
  simulation_.run();
  event.reset();
  b_.trigger();
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("first 1@0"));
  EXPECT_EQ(simulation_.num_processes(), 1U);  // x waits forever, until the simulation goes
}

TEST_F(EventTest, SimulationMayDieBeforeItsEvents) {
  auto simulation = std::make_unique<Simulation>();
  Event event(*simulation);
  simulation->start(wait_for(*simulation, event, "x", log_));
  simulation->run();
  simulation.reset();
  EXPECT_TRUE(event.trigger());  // nobody is left to wake
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace kvtide::engine
