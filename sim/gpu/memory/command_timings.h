#pragma once
// Timings of one channel in simulated ticks, from the issue of one command to the earliest issue of the next.
//
// JEDEC counts from the last edge of a command. A command that takes more than one tick is recorded at its first tick,
// so the distance from an a-tick command to a b-tick command is the JEDEC value + (a - 1) - (b - 1). Example, HBM3
// at 6.4 Gb/s (tick = CK/2 = 0.3125 ns): tRCD 31 CK = 62 ticks; ACT takes 3 ticks, RD takes 2: 62 + 2 - 1 = 63.

#include <cstdint>

#include "gpu/memory/memory_standard.h"

namespace kvtide::gpu {

using Tick = std::int64_t;

struct CommandTimings {
  double tick_seconds = 0;
  Tick clock = 1;       ///< column, ACT and REF commands start on the first tick of a clock
  Tick column_bus = 1;  ///< bus held by a column command
  Tick activate_bus = 1, precharge_bus = 1;
  bool one_command_bus = false;
  Tick act_to_read = 0, act_to_write = 0, act_to_pre = 0;
  Tick act_to_act_same_bank = 0, act_to_act_same_group = 0, act_to_act = 0, four_acts = 0;
  Tick pre_to_act = 0, pre_to_pre = 0, read_to_pre = 0, write_to_pre = 0;
  Tick read_to_read = 0, read_to_read_same_group = 0, read_to_read_other_stack = 0;
  Tick write_to_write = 0, write_to_write_same_group = 0;
  Tick read_to_write = 0, write_to_read = 0, write_to_read_same_group = 0;
  Tick pre_to_refresh = 0, act_to_refresh = 0, refresh_to_act = 0, refresh_interval = 0;  ///< interval 0: never
  Tick bank_refresh_to_act = 0;    ///< REF of one bank to its next ACT
  Tick bank_refresh_to_other = 0;  ///< to REF or ACT of another bank
  Tick read_latency = 0;           ///< read command to the end of its data
};

/// @param data_rate  bit/s per pin, > 0
/// @throws InputError when a timing is longer than 2^24 ticks
[[nodiscard]] CommandTimings command_timings(const MemoryStandard& standard, double data_rate);

}  // namespace kvtide::gpu
