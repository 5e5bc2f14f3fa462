#include "engine/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "engine/testing/picoseconds_literal.h"

namespace kvtide::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Log = std::vector<std::string>;

/// Puts the items one after the other, each `pause` after the last was accepted; notes "+item@time".
Process put_all(Simulation& simulation, Store<std::string>& store, std::vector<std::string> items, Picoseconds pause,
                Log& log) {
  for (const std::string& item : items) {
    co_await simulation.delay(pause);
    co_await store.put(item);
    log.push_back("+" + item + "@" + std::to_string(simulation.now().count()));
  }
}

/// Gets `count` items, pausing before each; notes "name:item@time".
Process get_all(Simulation& simulation, Store<std::string>& store, int count, Picoseconds pause, std::string name,
                Log& log) {
  for (int i = 0; i < count; ++i) {
    co_await simulation.delay(pause);
    const std::string item = co_await store.get();
    log.push_back(name + ":" + item + "@" + std::to_string(simulation.now().count()));
  }
}

class StoreTest : public testing::Test {
 protected:
  Simulation simulation_;
  Log log_;
  Store<std::string> store_{simulation_, 1};
};

TEST_F(StoreTest, PutWaitsWhileTheStoreIsFull) {
  // Gets at 5, 10, 15. a is stored at 1, b wants in at 2: gets a's place at 5; c wants in at 6, gets b's place at 10.
  simulation_.start(get_all(simulation_, store_, 3, 5_ps, "g", log_));
  simulation_.start(put_all(simulation_, store_, {"a", "b", "c"}, 1_ps, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("+a@1", "g:a@5", "+b@5", "g:b@10", "+c@10", "g:c@15"));
}

TEST_F(StoreTest, GetWaitsWhileTheStoreIsEmptyAndWaitersAreServedInOrder) {
  // g and h wait from 0; puts at 3 and 6. A put that finds a waiter goes on at once, before the waiter wakes.
  simulation_.start(get_all(simulation_, store_, 1, 0_ps, "g", log_));
  simulation_.start(get_all(simulation_, store_, 1, 0_ps, "h", log_));
  simulation_.start(put_all(simulation_, store_, {"a", "b"}, 3_ps, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("+a@3", "g:a@3", "+b@6", "h:b@6"));
  EXPECT_EQ(store_.size(), 0U);
}

TEST_F(StoreTest, ItemsLeaveInTheOrderTheyCame) {
  Store<std::string> unlimited(simulation_);
  simulation_.start(put_all(simulation_, unlimited, {"a", "b", "c", "d"}, 0_ps, log_));
  simulation_.run();
  EXPECT_EQ(unlimited.size(), 4U);
  log_.clear();
  simulation_.start(get_all(simulation_, unlimited, 4, 0_ps, "g", log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("g:a@0", "g:b@0", "g:c@0", "g:d@0"));
}

TEST_F(StoreTest, CallsThatCannotWaitTryInstead) {
  std::string a = "a";
  std::string b = "b";
  EXPECT_EQ(store_.try_get(), std::nullopt);
  EXPECT_TRUE(store_.try_put(a));
  EXPECT_FALSE(store_.try_put(b));
  EXPECT_EQ(b, "b");
  EXPECT_EQ(store_.try_get(), "a");
}

TEST_F(StoreTest, TryGetLetsAWaitingPutIn) {
  simulation_.start(put_all(simulation_, store_, {"a", "b"}, 1_ps, log_));
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("+a@1"));
  EXPECT_EQ(store_.try_get(), "a");
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("+a@1", "+b@2"));
  EXPECT_EQ(store_.size(), 1U);
}

TEST_F(StoreTest, PutCancelledWhileItWaitsPutsNothing) {
  simulation_.start(put_all(simulation_, store_, {"a"}, 1_ps, log_));
  const ProcessHandle waiting = simulation_.start(put_all(simulation_, store_, {"b"}, 2_ps, log_));
  simulation_.start(put_all(simulation_, store_, {"c"}, 3_ps, log_));
  simulation_.run();
  waiting.cancel();
  EXPECT_EQ(store_.try_get(), "a");
  EXPECT_EQ(store_.try_get(), "c");
  EXPECT_EQ(store_.try_get(), std::nullopt);
}

TEST_F(StoreTest, ItemHandedToAGetThatIsCancelledBeforeItWakesGoesToTheNext) {
  const ProcessHandle first = simulation_.start(get_all(simulation_, store_, 1, 0_ps, "g", log_));
  simulation_.start(get_all(simulation_, store_, 1, 0_ps, "h", log_));
  simulation_.run();
  std::string a = "a";
  EXPECT_TRUE(store_.try_put(a));
  EXPECT_EQ(store_.size(), 0U);  // on its way to g
  first.cancel();
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("h:a@0"));
}

TEST_F(StoreTest, ItemHandedToTheOnlyGetThatIsCancelledGoesBackToTheFront) {
  const ProcessHandle only = simulation_.start(get_all(simulation_, store_, 1, 0_ps, "g", log_));
  simulation_.run();
  std::string a = "a";
  std::string b = "b";
  EXPECT_TRUE(store_.try_put(a));
  EXPECT_TRUE(store_.try_put(b));
  only.cancel();
  EXPECT_EQ(store_.try_get(), "a");
  EXPECT_EQ(store_.try_get(), "b");
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(StoreTest, ItemsMayBeMoveOnly) {
  Store<std::unique_ptr<int>> store(simulation_, 1);
  int sum = 0;
  const auto give = [](Store<std::unique_ptr<int>>& to) -> Process {
    co_await to.put(std::make_unique<int>(2));
    co_await to.put(std::make_unique<int>(40));
  };
  const auto take = [](Store<std::unique_ptr<int>>& from, int& total) -> Process {
    total += *co_await from.get();
    total += *co_await from.get();
  };
  simulation_.start(give(store));
  simulation_.start(take(store, sum));
  simulation_.run();
  EXPECT_EQ(sum, 42);
}

TEST_F(StoreTest, CapacityZeroIsRefusedAndOneIsNot) {
  EXPECT_THROW(Store<int>(simulation_, 0), InputError);
  EXPECT_NO_THROW(Store<int>(simulation_, 1));
}

TEST_F(StoreTest, StoreMayDieBeforeItsWaitersAndThoseItHandedTo) {
  auto empty = std::make_unique<Store<std::string>>(simulation_, 1);
  simulation_.start(get_all(simulation_, *empty, 1, 0_ps, "g", log_));
  simulation_.start(get_all(simulation_, *empty, 1, 0_ps, "h", log_));
  auto full = std::make_unique<Store<std::string>>(simulation_, 1);
  simulation_.start(put_all(simulation_, *full, {"a", "b"}, 0_ps, log_));
  simulation_.run();
  std::string item = "i";
  EXPECT_TRUE(empty->try_put(item));  // handed to g
  empty.reset();
  full.reset();
  simulation_.run();
  EXPECT_THAT(log_, ElementsAre("+a@0", "g:i@0"));
  EXPECT_EQ(simulation_.num_processes(), 2U);  // h and the put of b wait forever
}

TEST_F(StoreTest, SimulationMayDieWithWaitersOnBothSides) {
  std::optional<Simulation> simulation(std::in_place);
  Store<std::string> empty(*simulation, 1);
  Store<std::string> full(*simulation, 1);
  for (int i = 0; i < 3; ++i) simulation->start(get_all(*simulation, empty, 1, 0_ps, "g", log_));
  for (int i = 0; i < 3; ++i) simulation->start(put_all(*simulation, full, {"a"}, 0_ps, log_));
  simulation->run();
  std::string item = "i";
  EXPECT_TRUE(empty.try_put(item));
  simulation.reset();  // the item handed to the first get travels through the others and stays in the store
  EXPECT_EQ(empty.size(), 1U);
  EXPECT_EQ(full.size(), 1U);
}

}  // namespace
}  // namespace kvtide::engine
