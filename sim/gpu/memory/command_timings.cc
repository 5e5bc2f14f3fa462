#include "gpu/memory/command_timings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr Tick kMaxTicks = 1 << 24;  // the longest JEDEC interval, tREFI 7.8 us, is 2^14 ticks of 0.5 ns

}  // namespace

CommandTimings command_timings(const MemoryStandard& standard, double data_rate) {
  const MemoryTimings& jedec = standard.timings;
  const double tick = static_cast<double>(standard.bits_per_tick) / data_rate;
  const double clock = tick * static_cast<double>(standard.ticks_per_clock);
  // Whole clocks, as a controller programs them; the slack absorbs decimal rounding of the given nanoseconds.
  const auto ticks = [&](const Timing& timing) {
    const auto clocks = static_cast<Tick>(std::ceil(timing.seconds / clock - 1e-6));
    const Tick count = std::max<Tick>(clocks, timing.clocks) * standard.ticks_per_clock;
    if (count > kMaxTicks) {
      throw InputError(fmt::format("memory standard {} at {} Gb/s per pin: a timing of {} ticks: expected at most {}",
                                   standard.name, data_rate * 1e-9, count, kMaxTicks));
    }
    return count;
  };
  const Tick column = standard.ticks_per_clock;
  const Tick act = standard.activate_ticks;
  const Tick pre = standard.precharge_ticks;
  const Tick burst = standard.geometry.burst_length / standard.bits_per_tick;
  const Tick write_data = ticks(jedec.cwl) + burst;

  CommandTimings t;
  t.tick_seconds = tick;
  t.clock = standard.ticks_per_clock;
  t.column_bus = column;
  t.activate_bus = act;
  t.precharge_bus = pre;
  t.one_command_bus = standard.one_command_bus;
  t.act_to_read = ticks(jedec.rcd_read) + act - column;
  t.act_to_write = ticks(jedec.rcd_write) + act - column;
  t.act_to_pre = ticks(jedec.ras) + act - pre;
  t.act_to_act_same_bank = ticks(jedec.rc);
  t.act_to_act_same_group = ticks(jedec.rrd_l);
  t.act_to_act = ticks(jedec.rrd_s);
  t.four_acts = ticks(jedec.faw);
  t.pre_to_act = ticks(jedec.rp) + pre - act;
  t.pre_to_pre = ticks(jedec.ppd);
  t.read_to_pre = ticks(jedec.rtp) + column - pre;
  t.write_to_pre = write_data + ticks(jedec.wr) + column - pre;
  t.read_to_read = std::max(burst, ticks(jedec.ccd_s));
  t.read_to_read_same_group = ticks(jedec.ccd_l);
  t.read_to_read_other_stack = ticks(jedec.ccd_r);
  t.write_to_write = t.read_to_read;
  t.write_to_write_same_group = t.read_to_read_same_group;
  t.read_to_write = ticks(jedec.rtw);
  t.write_to_read = write_data + ticks(jedec.wtr_s);
  t.write_to_read_same_group = write_data + ticks(jedec.wtr_l);
  t.pre_to_refresh = ticks(jedec.rp);
  t.act_to_refresh = ticks(jedec.rc) + act - pre;
  t.refresh_to_act = ticks(jedec.rfc) + pre - act;
  t.refresh_interval = ticks(jedec.refi);
  t.bank_refresh_to_act = ticks(jedec.rfc_pb) + pre - act;
  t.bank_refresh_to_other = ticks(jedec.rrefd) + pre - act;
  t.read_latency = ticks(jedec.cl) + burst;
  return t;
}

}  // namespace kvtide::gpu
