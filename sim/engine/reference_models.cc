#include "engine/reference_models.h"

#include <array>

#include "base/random.h"
#include "engine/resource.h"
#include "engine/store.h"

namespace kvtide::engine::reference {

namespace {

constexpr std::size_t kNumDelays = 4096;

/// 1 ps to 1 ms in no order: ties are rare, so the two simulators' rules for them do not show.
const std::array<Picoseconds, kNumDelays>& delays() {
  static const auto table = [] {
    std::array<Picoseconds, kNumDelays> values{};
    for (std::size_t i = 0; i < kNumDelays; ++i) {
      values[i] = Picoseconds{1 + static_cast<std::int64_t>(mix64(i) % 1'000'000'000U)};
    }
    return values;
  }();
  return table;
}

/// Delay number `draw` of process `process`.
Picoseconds delay_of(std::size_t process, std::size_t draw) {
  return delays()[(process * 37 + draw) % kNumDelays];
}

std::uint64_t clock(const Simulation& simulation) {
  return static_cast<std::uint64_t>(simulation.now().count());
}

Process time_out(Simulation& simulation, std::size_t process, std::size_t num_rounds, std::uint64_t& check) {
  for (std::size_t round = 0; round < num_rounds; ++round) co_await simulation.delay(delay_of(process, round));
  check += clock(simulation);
}

Process contend(Simulation& simulation, Resource& resource, std::size_t process, std::size_t num_rounds,
                std::uint64_t& check) {
  for (std::size_t round = 0; round < num_rounds; ++round) {
    const std::uint64_t asked = clock(simulation);
    {
      const Hold hold = co_await resource.request();
      check += clock(simulation) - asked;
      co_await simulation.delay(delay_of(process, 2 * round));
    }
    co_await simulation.delay(delay_of(process, 2 * round + 1));
  }
}

Process produce(Simulation& simulation, Store<std::uint64_t>& store, std::size_t process, std::size_t num_rounds) {
  for (std::size_t round = 0; round < num_rounds; ++round) {
    co_await store.put(process * num_rounds + round);
    co_await simulation.delay(delay_of(process, round));
  }
}

Process consume(Simulation& simulation, Store<std::uint64_t>& store, std::size_t process, std::size_t num_rounds,
                std::uint64_t& check) {
  for (std::size_t round = 0; round < num_rounds; ++round) {
    const std::uint64_t item = co_await store.get();
    check += item * clock(simulation);
    co_await simulation.delay(delay_of(process, round));
  }
}

struct Chain {
  Simulation* simulation;
  std::uint64_t* check;
  std::uint32_t process;
  std::uint32_t round;
  std::uint32_t num_rounds;

  void operator()() {
    if (round == num_rounds) {
      *check += clock(*simulation);
      return;
    }
    const Picoseconds delay = delay_of(process, round++);
    simulation->schedule_in(delay, *this);
  }
};

}  // namespace

Outcome run_timeouts(int num_processes, int num_rounds) {
  Simulation simulation;
  Outcome outcome;
  const auto rounds = static_cast<std::size_t>(num_rounds);
  for (int p = 0; p < num_processes; ++p) {
    simulation.start(time_out(simulation, static_cast<std::size_t>(p), rounds, outcome.check));
  }
  simulation.run();
  outcome.end_ps = simulation.now().count();
  outcome.num_events = static_cast<std::uint64_t>(num_processes) * rounds;
  return outcome;
}

Outcome run_resource(int num_processes, int capacity, int num_rounds) {
  Simulation simulation;
  Resource resource(simulation, static_cast<std::uint64_t>(capacity));
  Outcome outcome;
  const auto rounds = static_cast<std::size_t>(num_rounds);
  for (int p = 0; p < num_processes; ++p) {
    simulation.start(contend(simulation, resource, static_cast<std::size_t>(p), rounds, outcome.check));
  }
  simulation.run();
  outcome.end_ps = simulation.now().count();
  outcome.num_events = 4 * static_cast<std::uint64_t>(num_processes) * rounds;
  return outcome;
}

Outcome run_store(int num_producers, int capacity, int num_rounds) {
  Simulation simulation;
  Store<std::uint64_t> store(simulation, static_cast<std::size_t>(capacity));
  Outcome outcome;
  const auto rounds = static_cast<std::size_t>(num_rounds);
  for (int p = 0; p < num_producers; ++p) {
    const auto producer = static_cast<std::size_t>(p);
    simulation.start(produce(simulation, store, producer, rounds));
    simulation.start(
        consume(simulation, store, producer + static_cast<std::size_t>(num_producers), rounds, outcome.check));
  }
  simulation.run();
  outcome.end_ps = simulation.now().count();
  outcome.num_events = 4 * static_cast<std::uint64_t>(num_producers) * rounds;
  return outcome;
}

Outcome run_callbacks(int num_chains, int num_rounds) {
  Simulation simulation;
  Outcome outcome;
  for (int p = 0; p < num_chains; ++p) {
    Chain{&simulation, &outcome.check, static_cast<std::uint32_t>(p), 0, static_cast<std::uint32_t>(num_rounds)}();
  }
  simulation.run();
  outcome.end_ps = simulation.now().count();
  outcome.num_events = static_cast<std::uint64_t>(num_chains) * static_cast<std::uint64_t>(num_rounds);
  return outcome;
}

}  // namespace kvtide::engine::reference
