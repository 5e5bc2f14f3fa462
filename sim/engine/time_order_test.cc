// Whatever processes do, simulated time never goes back, and a wake-up comes exactly when it was asked for.

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/event.h"
#include "engine/process.h"
#include "engine/resource.h"
#include "engine/simulation.h"
#include "engine/store.h"

namespace kvtide::engine {
namespace {

/// Draws waits of every kind; `watch` sees each moment it runs.
template <typename Watch>
Process wander(Simulation& simulation, Resource& resource, Store<int>& store, RandomStream& random, Watch watch) {
  for (int round = 0; round < 40; ++round) {
    const Picoseconds before = simulation.now();
    watch();
    switch (random.below(4)) {
      case 0: {
        const Picoseconds delay{static_cast<std::int64_t>(random.below(5))};
        co_await simulation.delay(delay);
        EXPECT_EQ(simulation.now(), before + delay);
        break;
      }
      case 1: {
        const auto hold = co_await resource.request(1 + random.below(2));
        watch();
        co_await simulation.delay(Picoseconds{static_cast<std::int64_t>(random.below(3))});
        break;
      }
      case 2:
        co_await store.put(round);
        break;
      default:
        (void)co_await store.get();
        break;
    }
    EXPECT_GE(simulation.now(), before);
  }
}

TEST(TimeOrder, NothingEverRunsInThePast) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Simulation simulation;
    Resource resource(simulation, 2);
    Store<int> store(simulation, 3);
    RandomStream random(seed, "time_order");
    Picoseconds latest{0};
    std::int64_t seen = 0;
    const auto watch = [&] {
      ASSERT_GE(simulation.now(), latest);
      latest = simulation.now();
      ++seen;
    };
    std::vector<ProcessHandle> handles;
    for (int i = 0; i < 12; ++i)
      handles.push_back(simulation.start(wander(simulation, resource, store, random, watch)));
    // Some end half-way, holding what they hold.
    for (int i = 0; i < 4; ++i) {
      simulation.schedule_at(Picoseconds{20 + 10 * i}, [&, i] {
        watch();
        handles[static_cast<std::size_t>(i)].cancel();
      });
    }
    // A feeder and a drain, so that nobody waits for the store for ever.
    for (int i = 0; i < 2000; ++i) {
      simulation.schedule_at(Picoseconds{i}, [&] {
        watch();
        int item = 0;
        if (!store.try_put(item)) (void)store.try_get();
      });
    }
    simulation.run();
    EXPECT_GT(seen, 2000);
    EXPECT_GE(simulation.now(), Picoseconds{1999});
  }
}

}  // namespace
}  // namespace kvtide::engine
