#pragma once
// A memory standard as data: organisation of one stack (HBM) or chip (GDDR) and its timings.
// The files are hw_profiles/memory/<name>.yaml; every value there has a unit and a source.

#include <cstdint>
#include <string>

#include "base/units.h"

namespace kvtide::gpu {

/// How one unit (stack or chip) is organised. Banks, bank groups, pseudo channels and stack IDs are powers of two;
/// channels and rows may be any count.
///
/// Example, HBM3: 16 channels x 2 pseudo channels x 32 bit = 1024 bit; BL8 * 32 bit / 8 = 32 B a burst;
/// 2 stack IDs x 4 bank groups x 4 banks x 16384 rows x 1 KiB = 512 MiB a pseudo channel, 16 GiB a stack.
struct MemoryGeometry {
  std::int64_t num_channels = 0;         ///< per unit; each has its own command bus or buses
  std::int64_t num_pseudo_channels = 1;  ///< per channel, 1 or 2; each has its own data bus and banks
  std::int64_t pseudo_channel_bits = 0;  ///< data pins of one pseudo channel
  std::int64_t burst_length = 0;         ///< data bits per pin of one column command
  std::int64_t num_stack_ids = 1;        ///< ranks of a stack that share the pins
  std::int64_t num_bank_groups = 0;      ///< per stack ID
  std::int64_t num_banks = 0;            ///< per bank group
  std::int64_t num_rows = 0;             ///< per bank
  Bytes row_bytes = 0;                   ///< per pseudo channel

  [[nodiscard]] Bytes burst_bytes() const { return static_cast<Bytes>(pseudo_channel_bits * burst_length / 8); }
  [[nodiscard]] std::int64_t columns_per_row() const { return static_cast<std::int64_t>(row_bytes / burst_bytes()); }
  [[nodiscard]] std::int64_t banks_per_pseudo_channel() const { return num_stack_ids * num_bank_groups * num_banks; }
  [[nodiscard]] Bytes pseudo_channel_bytes() const {
    return static_cast<Bytes>(banks_per_pseudo_channel() * num_rows) * row_bytes;
  }
  [[nodiscard]] Bytes unit_bytes() const {
    return static_cast<Bytes>(num_channels * num_pseudo_channels) * pseudo_channel_bytes();
  }
};

/// One timing parameter as JEDEC writes them: max(a time, a count of clocks).
///
/// Example, tCCD_L of HBM3 = max(2.5 ns, 4 CK): 4 CK at 6.4 Gb/s (CK 0.625 ns), and 4 CK = 3.05 ns at 5.24 Gb/s.
struct Timing {
  double seconds = 0;
  std::int64_t clocks = 0;
};

/// JEDEC timing parameters; tRCD of a read is rcd_read. Times are kept when the data rate changes, clock counts are
/// not.
struct MemoryTimings {
  Timing cl, cwl;              ///< column command to first data, read and write
  Timing rcd_read, rcd_write;  ///< activate to column command
  Timing rp, ras, rc;
  Timing ccd_s, ccd_l, ccd_r;  ///< column to column: other bank group, same group, other stack ID (reads)
  Timing rrd_s, rrd_l;         ///< activate to activate: other bank group, same group
  Timing faw;                  ///< window of four activates of a pseudo channel; zero: no such limit
  Timing rtp, wr, wtr_s, wtr_l;
  Timing rtw;        ///< read command to write command
  Timing ppd;        ///< precharge to precharge
  Timing rfc, refi;  ///< all-bank refresh: duration, interval
  Timing rfc_pb;     ///< refresh of one bank; zero: the chip has none or its time is not known
  Timing rrefd;      ///< refresh of one bank to that of another, or to an activate of another
};

/// Which banks a controller refreshes at once.
enum class RefreshMode : std::uint8_t { none, all_bank, per_bank };

/// One entry of hw_profiles/memory.
struct MemoryStandard {
  std::string name;  ///< "HBM3"
  MemoryGeometry geometry;
  MemoryTimings timings;
  double data_rate = 0;              ///< bit/s per pin at which the timings were given
  double max_data_rate = 0;          ///< bit/s per pin, the fastest product known
  std::int64_t bits_per_tick = 2;    ///< data bits per pin in one simulated tick
  std::int64_t ticks_per_clock = 1;  ///< 1, or 2 where row commands use both edges of CK (HBM3, HBM4)
  std::int64_t activate_ticks = 1;   ///< row command bus held by one ACT
  std::int64_t precharge_ticks = 1;  ///< row command bus held by one PRE or REF
  bool one_command_bus = false;      ///< true: row and column commands share it (GDDR)

  /// @throws InputError naming what does not fit (a count that is no power of two, a row that is no whole number of
  /// bursts,
  ///         rc < ras, refresh that takes longer than its interval, ...)
  void validate() const;
};

/// Reads hw_profiles/memory/<name>.yaml, or the file that `name_or_path` names. @throws InputError
[[nodiscard]] MemoryStandard load_memory_standard(const std::string& name_or_path);

}  // namespace kvtide::gpu
