#pragma once
// What outlives a process's frame: whether it has finished. Owned jointly by the simulation (while the process lives)
// and by the handles; the count is plain because a simulation belongs to one thread at a time.

#include <cstdint>

#include "engine/event.h"

namespace kvtide::engine {

struct ProcessState {
  ProcessState(Simulation& simulation, Process::Frame process_frame) : frame(process_frame), done(simulation) {}
  void disown() noexcept {
    if (--num_owners == 0) delete this;
  }

  Process::Frame frame;  ///< empty once finished
  Event done;
  std::uint32_t num_owners = 0;
};

}  // namespace kvtide::engine
