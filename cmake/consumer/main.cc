// Half of eight blocks evicted, and a process of two delays on the event engine: prints "512 4000".
#include <iostream>

#include "engine/process.h"
#include "engine/simulation.h"
#include "kv/compression/evicted_runs.h"

kvtide::engine::Process step(kvtide::engine::Simulation& simulation) {
  for (int delay = 0; delay < 2; ++delay) co_await simulation.delay(kvtide::Picoseconds{2000});
}

int main() {
  kvtide::kv::Compression setting;
  setting.stages = {kvtide::kv::Evict{}};
  const auto evicted = kvtide::kv::evicted_runs(setting, 1024, {std::vector<double>(1024, 1.0)});
  kvtide::engine::Simulation simulation;
  simulation.start(step(simulation));
  simulation.run();
  std::cout << kvtide::kv::num_positions_of(evicted.front()) << ' ' << simulation.now().count() << '\n';
}
