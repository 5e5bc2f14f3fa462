#include "engine/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "engine/event.h"
#include "engine/simulation.h"
#include "engine/testing/picoseconds_literal.h"

namespace kvtide::engine {
namespace {

using testing::ElementsAre;

using Log = std::vector<std::string>;

/// Notes its name and the time after each of the delays.
Process walk(Simulation& simulation, std::vector<Picoseconds> delays, std::string name, Log& log) {
  for (const Picoseconds delay : delays) {
    co_await simulation.delay(delay);
    log.push_back(name + std::to_string(simulation.now().count()));
  }
}

/// Holds a share of `alive` until it is destroyed.
Process hold_forever(Simulation& simulation, std::shared_ptr<int> alive) {
  for (;;) {
    co_await simulation.delay(10_ps);
    ++*alive;
  }
}

TEST(Process, DelaysAddUp) {
  // a wakes at 3 and 3+4=7, b at 5 and 5+2=7; at 7 ps a goes first: it scheduled that wake-up at 3 ps, b only at 5 ps.
  Simulation simulation;
  Log log;
  simulation.start(walk(simulation, {3_ps, 4_ps}, "a", log));
  simulation.start(walk(simulation, {5_ps, 2_ps}, "b", log));
  simulation.run();
  EXPECT_THAT(log, ElementsAre("a3", "b5", "a7", "b7"));
}

TEST(Process, NothingRunsBeforeTheSimulationDoesAndZeroDelayYields) {
  Simulation simulation;
  Log log;
  simulation.start(walk(simulation, {0_ps, 0_ps}, "a", log));
  simulation.start(walk(simulation, {0_ps}, "b", log));
  EXPECT_TRUE(log.empty());
  simulation.run();
  EXPECT_THAT(log, ElementsAre("a0", "b0", "a0"));
}

TEST(Process, DelayPriorityDecidesWithinTheInstant) {
  Simulation simulation;
  Log log;
  const auto wait = [](Simulation& sim, Priority priority, std::string name, Log& names) -> Process {
    co_await sim.delay(4_ps, priority);
    names.push_back(name);
  };
  simulation.start(wait(simulation, Priority::observation, "observe", log));
  simulation.start(wait(simulation, Priority::normal, "start", log));
  simulation.start(wait(simulation, Priority::completion, "complete", log));
  simulation.run();
  EXPECT_THAT(log, ElementsAre("complete", "start", "observe"));
}

TEST(Process, NegativeDelayIsAnErrorInsideTheProcessThatItMayCatch) {
  Simulation simulation;
  Log log;
  const auto slip = [](Simulation& sim, Log& names) -> Process {
    try {
      co_await sim.delay(Picoseconds{-1});
    } catch (const InputError&) {
      names.push_back("refused");
    }
    co_await sim.delay(2_ps);
    names.push_back("went on");
  };
  simulation.start(slip(simulation, log));
  simulation.run();
  EXPECT_THAT(log, ElementsAre("refused", "went on"));
  EXPECT_EQ(simulation.now(), 2_ps);
}

TEST(Process, ExceptionLeavesRunTheProcessIsOverAndTheOthersGoOn) {
  Simulation simulation;
  Log log;
  const auto alive = std::make_shared<int>(0);
  const auto fail = [](Simulation& sim, std::shared_ptr<int>) -> Process {
    co_await sim.delay(2_ps);
    throw std::runtime_error("process failed");
  };
  const ProcessHandle failing = simulation.start(fail(simulation, alive));
  simulation.start(walk(simulation, {2_ps, 2_ps}, "a", log));
  EXPECT_THROW(simulation.run(), std::runtime_error);
  EXPECT_TRUE(failing.is_finished());
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_TRUE(log.empty());
  simulation.run();
  EXPECT_THAT(log, ElementsAre("a2", "a4"));
}

TEST(Process, HandleTellsWhenItIsDoneAndOthersCanWaitForIt) {
  Simulation simulation;
  Log log;
  ProcessHandle worker = simulation.start(walk(simulation, {3_ps, 4_ps}, "a", log));
  const auto join = [](Simulation& sim, ProcessHandle other, Log& names) -> Process {
    co_await other.done().wait();
    names.push_back("joined" + std::to_string(sim.now().count()));
    co_await other.done().wait();  // over already: goes on at once
    names.push_back("again" + std::to_string(sim.now().count()));
  };
  simulation.start(join(simulation, worker, log));
  EXPECT_FALSE(worker.is_finished());
  simulation.run();
  EXPECT_TRUE(worker.is_finished());
  EXPECT_THAT(log, ElementsAre("a3", "a7", "joined7", "again7"));
  EXPECT_FALSE(worker.cancel());
}

TEST(Process, CancelWithdrawsTheWakeUpAndDestroysTheLocals) {
  Simulation simulation;
  const auto alive = std::make_shared<int>(0);
  const ProcessHandle process = simulation.start(hold_forever(simulation, alive));
  simulation.run_until(20_ps);  // wakes at 10 and 20
  EXPECT_EQ(*alive, 2);
  EXPECT_EQ(simulation.num_processes(), 1U);
  EXPECT_TRUE(process.cancel());
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_TRUE(process.is_finished());
  EXPECT_EQ(simulation.num_pending(), 0U);
  EXPECT_EQ(simulation.num_processes(), 0U);
  EXPECT_FALSE(process.cancel());
  simulation.run();
  EXPECT_EQ(*alive, 2);
  EXPECT_EQ(simulation.now(), 20_ps);
}

TEST(Process, CancelBeforeItsFirstStatement) {
  Simulation simulation;
  const auto alive = std::make_shared<int>(0);
  const ProcessHandle process = simulation.start(hold_forever(simulation, alive));
  EXPECT_TRUE(process.cancel());
  simulation.run();
  EXPECT_EQ(*alive, 0);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Process, CancellingItselfEndsItAtItsNextWait) {
  Simulation simulation;
  Log log;
  ProcessHandle self;
  const auto give_up = [](Simulation& sim, const ProcessHandle& me, Log& names) -> Process {
    co_await sim.delay(1_ps);
    EXPECT_TRUE(me.cancel());
    names.push_back("still here");
    co_await sim.delay(1_ps);
    names.push_back("never");
  };
  self = simulation.start(give_up(simulation, self, log));
  simulation.run();
  EXPECT_THAT(log, ElementsAre("still here"));
  EXPECT_TRUE(self.is_finished());
  EXPECT_EQ(simulation.now(), 1_ps);
}

TEST(Process, WaiterWakesWhenTheProcessItWaitsForIsCancelled) {
  Simulation simulation;
  Log log;
  const auto alive = std::make_shared<int>(0);
  const ProcessHandle worker = simulation.start(hold_forever(simulation, alive));
  const auto join = [](Simulation& sim, ProcessHandle other, Log& names) -> Process {
    co_await other.done().wait();
    names.push_back("joined" + std::to_string(sim.now().count()));
  };
  simulation.start(join(simulation, worker, log));
  simulation.schedule_at(15_ps, [worker] { worker.cancel(); });
  simulation.run();
  EXPECT_THAT(log, ElementsAre("joined15"));
}

TEST(Process, DestroyingTheSimulationMidFlightDestroysEveryProcessNewestFirst) {
  struct Farewell {
    std::string name;
    Log& log;
    ~Farewell() { log.push_back(name); }
  };
  Log log;
  const auto stay = [](Simulation& sim, std::string name, Log& names) -> Process {
    const Farewell farewell{name, names};
    co_await sim.delay(100_ps);
  };
  ProcessHandle survivor;
  {
    Simulation simulation;
    simulation.start(stay(simulation, "first", log));
    survivor = simulation.start(stay(simulation, "second", log));
    simulation.start(stay(simulation, "third", log));
    simulation.run_until(50_ps);
    EXPECT_TRUE(log.empty());
  }
  EXPECT_THAT(log, ElementsAre("third", "second", "first"));
  EXPECT_TRUE(survivor.is_finished());  // a handle may outlive the simulation
}

TEST(Process, ProcessNeverStartedOnlyFreesItsFrame) {
  Simulation simulation;
  const auto alive = std::make_shared<int>(0);
  {
    const Process process = hold_forever(simulation, alive);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(simulation.num_processes(), 0U);
}

TEST(Process, WaitingForAnotherSimulationIsRefused) {
  Simulation mine;
  Simulation other;
  mine.start([](Simulation& wrong) -> Process { co_await wrong.delay(1_ps); }(other));
  EXPECT_THROW(mine.run(), Error);
  EXPECT_EQ(other.num_pending(), 0U);
}

TEST(Process, AMillionEventsOfAThousandProcessesLeaveNothingBehind) {
  Simulation simulation;
  Log log;
  std::uint64_t sum = 0;
  const auto count = [](Simulation& sim, std::uint64_t& total) -> Process {
    for (int round = 0; round < 1000; ++round) {
      co_await sim.delay(1_ps);
      ++total;
    }
  };
  for (int i = 0; i < 1000; ++i) simulation.start(count(simulation, sum));
  simulation.run();
  // 1000 x 1000 delays and the 1000 first statements.
  EXPECT_EQ(sum, 1'000'000U);
  EXPECT_EQ(simulation.num_fired(), 1'001'000U);
  EXPECT_EQ(simulation.num_processes(), 0U);
  EXPECT_EQ(simulation.num_pending(), 0U);
  EXPECT_EQ(simulation.now(), 1000_ps);
}

}  // namespace
}  // namespace kvtide::engine
