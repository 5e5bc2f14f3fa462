#pragma once
// A memory standard as data: organisation of one stack (HBM) or chip (GDDR) and its timings.
// The files are hw_profiles/memory/<name>.yaml; every value there has a unit and a source.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace kvtide::gpu {

/// How one unit (stack or chip) is organised. Counts are powers of two except num_channels.
///
/// Example, HBM3: 16 channels x 2 pseudo channels x 32 bit = 1024 bit; BL8 * 32 bit / 8 = 32 B a burst;
/// 2 stack IDs x 4 bank groups x 4 banks x 16384 rows x 1 KiB = 512 MiB a pseudo channel, 16 GiB a stack.
struct MemoryGeometry {
  std::int64_t num_channels = 0;         ///< per unit; each has one row and one column command bus
  std::int64_t num_pseudo_channels = 1;  ///< per channel, 1 or 2; each has its own data bus and banks
  std::int64_t pseudo_channel_bits = 0;  ///< data pins of one pseudo channel
  std::int64_t burst_length = 0;         ///< beats per column command, as data bits per pin
  std::int64_t num_stack_ids = 1;
  std::int64_t num_bank_groups = 0;  ///< per stack ID
  std::int64_t num_banks = 0;        ///< per bank group
  std::int64_t num_rows = 0;         ///< per bank
  Bytes row_bytes = 0;               ///< per pseudo channel

  [[nodiscard]] Bytes burst_bytes() const { return static_cast<Bytes>(pseudo_channel_bits * burst_length / 8); }
  [[nodiscard]] std::int64_t columns_per_row() const { return static_cast<std::int64_t>(row_bytes / burst_bytes()); }
  [[nodiscard]] std::int64_t banks_per_pseudo_channel() const { return num_stack_ids * num_bank_groups * num_banks; }
  [[nodiscard]] Bytes unit_bytes() const {
    return static_cast<Bytes>(num_channels * num_pseudo_channels * banks_per_pseudo_channel() * num_rows) * row_bytes;
  }
};

/// JEDEC timing parameters in nanoseconds, and the command cost in clocks. Names follow JEDEC: nRCD -> rcd.
///
/// A tick is the time of two data bits of a pin, 2 / data_rate: CK for HBM2 (two bits a clock), CK/2 for HBM3 and HBM4
/// (four bits a clock). Nanosecond values are kept when the data rate changes; they are rounded up to whole ticks.
struct MemoryTimings {
  double cl = 0, cwl = 0;              ///< column command to first data, read and write
  double rcd_read = 0, rcd_write = 0;  ///< activate to column command
  double rp = 0, ras = 0, rc = 0;
  double ccd_s = 0, ccd_l = 0, ccd_r = 0;  ///< column to column: other bank group, same, other stack ID; 0 = burst time
  double rrd_s = 0, rrd_l = 0, faw = 0;    ///< activate to activate; window of four activates (0 = no such window)
  double rtp = 0, wr = 0, wtr_s = 0, wtr_l = 0;
  double rtw = 0;                        ///< read to write command
  double ppd = 0;                        ///< precharge to precharge
  double rfc = 0, refi = 0;              ///< all-bank refresh: duration, interval
  double rfc_per_bank = 0, rrefd = 0;    ///< per-bank refresh: duration, distance to the next
  std::int64_t ticks_per_clock = 1;      ///< ticks of one command clock (CK): 1 or 2
  std::int64_t activate_bus_ticks = 1;   ///< row command bus held by one ACT
  std::int64_t precharge_bus_ticks = 1;  ///< row command bus held by one PRE
};

/// One entry of hw_profiles/memory.
struct MemoryStandard {
  std::string name;  ///< "HBM3"
  MemoryGeometry geometry;
  MemoryTimings timings;
  double reference_data_rate = 0;  ///< bit/s per pin at which the clock-counted timings were given
  double max_data_rate = 0;        ///< bit/s per pin
  /// Timings that are counts of clocks in the standard (bursts, bus turnaround) shrink with the clock; the rest stay in
  /// ns.
  std::vector<std::string> clocked;

  /// @throws InputError naming what does not fit (power of two, row not a multiple of the burst, rc < ras + rp, ...)
  void validate() const;
};

/// Reads hw_profiles/memory/<name>.yaml, or the file that `name_or_path` names. @throws InputError
[[nodiscard]] MemoryStandard load_memory_standard(const std::string& name_or_path);

}  // namespace kvtide::gpu
