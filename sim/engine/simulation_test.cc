#include "engine/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "base/random.h"
#include "engine/testing/picoseconds_literal.h"

namespace kvtide::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Log = std::vector<std::pair<std::int64_t, char>>;  // (ps, what)

/// Records which calls ran when.
class SimulationTest : public testing::Test {
 protected:
  auto note(char what) {
    return [this, what] { log_.emplace_back(simulation_.now().count(), what); };
  }
  Simulation simulation_;
  Log log_;
};

TEST_F(SimulationTest, CallsRunInOrderOfTimeThenPriorityThenScheduling) {
  simulation_.schedule_at(20_ps, note('e'));
  simulation_.schedule_at(10_ps, note('c'));
  simulation_.schedule_at(10_ps, note('d'), Priority::observation);
  simulation_.schedule_at(10_ps, note('a'), Priority::completion);
  simulation_.schedule_at(10_ps, note('C'));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{10, 'a'}, Log::value_type{10, 'c'}, Log::value_type{10, 'C'},
                                Log::value_type{10, 'd'}, Log::value_type{20, 'e'}));
  EXPECT_EQ(simulation_.now(), 20_ps);
  EXPECT_EQ(simulation_.num_fired(), 5U);
}

TEST_F(SimulationTest, ShuffledSchedulingOfIndependentEventsGivesTheSameTrace) {
  // 60 calls at 60 different (time, priority): nothing is left for the serial number to decide.
  std::vector<int> order(60);
  for (int i = 0; i < 60; ++i) order[static_cast<std::size_t>(i)] = i;
  const auto trace = [&order] {
    Simulation simulation;
    std::vector<std::pair<std::int64_t, int>> seen;
    for (const int i : order) {
      simulation.schedule_at(
          Picoseconds{i / 3}, [&simulation, &seen, i] { seen.emplace_back(simulation.now().count(), i); },
          static_cast<Priority>(i % 3));
    }
    simulation.run();
    return seen;
  };
  const auto sorted = trace();
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(sorted[i], std::make_pair(std::int64_t(i / 3), static_cast<int>(i)));
  RandomStream random(3, "shuffle");
  for (int shuffle = 0; shuffle < 20; ++shuffle) {
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
    ASSERT_EQ(trace(), sorted) << "after shuffle " << shuffle;
  }
}

TEST_F(SimulationTest, RunUntilIncludesItsLimitAndNotOnePicosecondMore) {
  simulation_.schedule_at(10_ps, note('a'));
  simulation_.schedule_at(11_ps, note('b'));
  simulation_.run_until(10_ps);
  EXPECT_THAT(log_, ElementsAre(Log::value_type{10, 'a'}));
  EXPECT_EQ(simulation_.now(), 10_ps);
  EXPECT_EQ(simulation_.num_pending(), 1U);
  simulation_.run_until(11_ps);
  EXPECT_EQ(log_.size(), 2U);
}

TEST_F(SimulationTest, RunUntilMovesTheClockWhereNothingHappens) {
  simulation_.schedule_at(5_ps, note('a'));
  simulation_.run_until(100_ps);
  EXPECT_EQ(simulation_.now(), 100_ps);
  simulation_.schedule_in(1_ps, note('b'));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{5, 'a'}, Log::value_type{101, 'b'}));
}

TEST_F(SimulationTest, RunUntilTheSameInstantRunsWhatWasScheduledForItSince) {
  simulation_.run_until(10_ps);
  simulation_.schedule_at(10_ps, note('a'));
  simulation_.run_until(10_ps);
  EXPECT_THAT(log_, ElementsAre(Log::value_type{10, 'a'}));
}

TEST_F(SimulationTest, RunUntilThePastIsRefused) {
  simulation_.run_until(10_ps);
  EXPECT_THROW(simulation_.run_until(9_ps), InputError);
  EXPECT_NO_THROW(simulation_.run_until(10_ps));
}

TEST_F(SimulationTest, StepRunsOneEvent) {
  simulation_.schedule_at(1_ps, note('a'));
  simulation_.schedule_at(1_ps, note('b'));
  EXPECT_TRUE(simulation_.step());
  EXPECT_EQ(log_.size(), 1U);
  EXPECT_TRUE(simulation_.step());
  EXPECT_FALSE(simulation_.step());
  EXPECT_EQ(log_.size(), 2U);
}

TEST_F(SimulationTest, StopReturnsAfterThePresentEventAndRunGoesOn) {
  simulation_.schedule_at(1_ps, [this] { simulation_.stop(); });
  simulation_.schedule_at(1_ps, note('b'));
  simulation_.run();
  EXPECT_TRUE(log_.empty());
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{1, 'b'}));
}

TEST_F(SimulationTest, StoppedRunUntilLeavesTheClockAtTheLastEvent) {
  simulation_.schedule_at(3_ps, [this] { simulation_.stop(); });
  simulation_.schedule_at(4_ps, note('b'));
  simulation_.run_until(10_ps);
  EXPECT_EQ(simulation_.now(), 3_ps);  // 10 would put the call at 4 ps into the past
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{4, 'b'}));
}

TEST_F(SimulationTest, ThePastIsRefusedAndThePresentIsNot) {
  simulation_.run_until(10_ps);
  try {
    simulation_.schedule_at(9_ps, note('a'));
    FAIL() << "9 ps was accepted at 10 ps";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("9 ps"));
    EXPECT_THAT(error.what(), HasSubstr("10 ps"));
  }
  EXPECT_THROW(simulation_.schedule_in(Picoseconds{-1}, note('a')), InputError);
  EXPECT_NO_THROW(simulation_.schedule_at(10_ps, note('b')));
  EXPECT_NO_THROW(simulation_.schedule_in(0_ps, note('c')));
  EXPECT_EQ(simulation_.num_pending(), 2U);
}

TEST_F(SimulationTest, TimesBeyond64BitsAreRefusedAndTheLastOneIsNot) {
  // 2^63 - 1 ps = 9,223,372,036,854,775,807 ps is the last time; at 10 ps the longest delay is 10 less.
  const Picoseconds last{std::numeric_limits<std::int64_t>::max()};
  simulation_.run_until(10_ps);
  EXPECT_THROW(simulation_.schedule_in(last - 9_ps, note('a')), InputError);
  simulation_.schedule_in(last - 10_ps, note('b'));
  simulation_.run();
  EXPECT_EQ(simulation_.now(), last);
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(SimulationTest, CancelledCallDoesNotRunAndItsCallableIsDestroyedAtOnce) {
  const auto alive = std::make_shared<int>(0);
  ScheduledCall call = simulation_.schedule_at(10_ps, [alive] { ++*alive; });
  simulation_.schedule_at(10_ps, note('b'));
  EXPECT_TRUE(call.is_pending());
  EXPECT_EQ(simulation_.num_pending(), 2U);
  EXPECT_TRUE(call.cancel());
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_FALSE(call.is_pending());
  EXPECT_FALSE(call.cancel());
  EXPECT_EQ(simulation_.num_pending(), 1U);
  simulation_.run();
  EXPECT_EQ(*alive, 0);
  EXPECT_EQ(simulation_.num_fired(), 1U);
}

TEST_F(SimulationTest, CancellingAfterFiringDoesNothingEvenWhenTheRecordIsInUseAgain) {
  ScheduledCall first = simulation_.schedule_at(10_ps, note('a'));
  const ScheduledCall copy = first;
  simulation_.run();
  simulation_.schedule_at(20_ps, note('b'));  // takes the record of the first
  EXPECT_FALSE(copy.is_pending());
  EXPECT_FALSE(first.cancel());
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{10, 'a'}, Log::value_type{20, 'b'}));
  EXPECT_FALSE(ScheduledCall{}.cancel());
}

TEST_F(SimulationTest, ACallThatIsRunningIsNoLongerPending) {
  ScheduledCall call;
  call = simulation_.schedule_at(1_ps, [&] { EXPECT_FALSE(call.cancel()); });
  simulation_.run();
  EXPECT_EQ(simulation_.num_fired(), 1U);
}

TEST_F(SimulationTest, CancellingAMillionGuardsKeepsTheQueueSmall) {
  // Each guard would fire in the far future; the queue may hold no more cancelled entries than the sweep threshold
  // allows.
  std::uint64_t num_run = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    ScheduledCall guard = simulation_.schedule_in(1'000'000_ps, [] { FAIL() << "a cancelled guard fired"; });
    if (i % 1000 == 0) simulation_.schedule_in(2'000'000_ps, [&num_run] { ++num_run; });
    guard.cancel();
    EXPECT_EQ(simulation_.num_pending(), static_cast<std::size_t>(i / 1000 + 1));
  }
  simulation_.run();
  EXPECT_EQ(num_run, 1000U);
  EXPECT_EQ(simulation_.num_fired(), 1000U);
}

TEST_F(SimulationTest, CallablesThatScheduleWhenDestroyedSurviveTheSweepOfTheCancelled) {
  // 3000 calls, each of which schedules one more when it is destroyed; cancelling them all crosses the threshold of the
  // sweep (1024 cancelled entries that are the majority).
  struct Successor {
    Successor(Simulation* on, int* counted) : simulation(on), num_run(counted) {}
    ~Successor() {
      int* const counter = num_run;
      if (simulation != nullptr) simulation->schedule_in(1_ps, [counter] { ++*counter; });
    }
    Simulation* simulation;
    int* num_run;
  };
  int num_run = 0;
  std::vector<ScheduledCall> calls;
  for (int i = 0; i < 3000; ++i) {
    auto successor = std::make_unique<Successor>(&simulation_, &num_run);
    calls.push_back(simulation_.schedule_in(2_ps, [held = std::move(successor)] { FAIL() << "a cancelled call ran"; }));
  }
  for (ScheduledCall& call : calls) EXPECT_TRUE(call.cancel());
  EXPECT_EQ(simulation_.num_pending(), 3000U);
  simulation_.run();
  EXPECT_EQ(num_run, 3000);
}

TEST_F(SimulationTest, ExceptionOfACallLeavesRunAndTheRestGoesOn) {
  const auto alive = std::make_shared<int>(0);
  simulation_.schedule_at(1_ps, [alive] { throw std::runtime_error("call failed"); });
  simulation_.schedule_at(1_ps, note('b'));
  EXPECT_THROW(simulation_.run(), std::runtime_error);
  EXPECT_EQ(alive.use_count(), 1);
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre(Log::value_type{1, 'b'}));
}

TEST_F(SimulationTest, RunFromInsideACallIsRefused) {
  simulation_.schedule_at(1_ps, [this] { simulation_.run(); });
  simulation_.schedule_at(2_ps, [this] { simulation_.step(); });
  EXPECT_THROW(simulation_.run(), Error);
  EXPECT_THROW(simulation_.run(), Error);
  EXPECT_EQ(simulation_.num_pending(), 0U);
}

TEST_F(SimulationTest, PendingCallsAreDestroyedWithTheSimulation) {
  const auto alive = std::make_shared<int>(0);
  {
    Simulation simulation;
    simulation.schedule_at(1_ps, [alive] {});
    simulation.schedule_at(2_ps, [alive, ballast = std::array<char, 100>{}] { static_cast<void>(ballast); });
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_F(SimulationTest, DestructorsThatScheduleWhileTheSimulationDiesAreIgnored) {
  struct Scheduler {
    explicit Scheduler(Simulation* on) : simulation(on) {}
    ~Scheduler() {
      EXPECT_FALSE(simulation->schedule_in(1_ps, [] {}).is_pending());
    }
    Simulation* simulation;
  };
  auto simulation = std::make_unique<Simulation>();
  simulation->schedule_at(1_ps, [held = std::make_shared<Scheduler>(simulation.get())] {});
  simulation.reset();
}

TEST_F(SimulationTest, EqualRunsGiveEqualTraces) {
  // Calls that draw their own successors: 20 chains over 10 rounds with many ties (delays of 0 to 3 ps).
  const auto trace = [] {
    Simulation simulation;
    RandomStream random(7, "replay");
    Log log;
    struct Chain {
      Simulation& simulation;
      RandomStream& random;
      Log& log;
      char name;
      int rounds;
      void operator()() {
        log.emplace_back(simulation.now().count(), name);
        if (rounds-- > 0) {
          const Picoseconds delay{static_cast<std::int64_t>(random.below(4))};
          simulation.schedule_in(delay, *this, static_cast<Priority>(random.below(3)));
        }
      }
    };
    for (char name = 'a'; name < 'a' + 20; ++name)
      simulation.schedule_in(0_ps, Chain{simulation, random, log, name, 10});
    simulation.run();
    return log;
  };
  const Log first = trace();
  EXPECT_EQ(first.size(), 20U * 11U);
  EXPECT_EQ(trace(), first);
}

}  // namespace
}  // namespace kvtide::engine
