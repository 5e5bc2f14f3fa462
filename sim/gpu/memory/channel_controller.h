#pragma once
// One memory channel: queues, banks, command buses and the FR-FCFS scheduler, driven by events of its own.
//
// Rules (those of the published reference runs; FR-FCFS after Rixner et al., "Memory Access Scheduling", ISCA 2000):
//  - each clock at most one column command, and one row command while the row bus is free; the pseudo channels share
//  both buses;
//  - of the commands that are ready, the one of the oldest request goes first; a request whose row it opened itself
//  goes before
//    other row hits;
//  - rows stay open; a row is not closed while an older request waits for it;
//  - reads are served until the write queue exceeds 0.8 of its size or no read waits, then writes until it falls below
//  0.2;
//  - all-bank refresh: every refresh interval both pseudo channels are closed and refreshed, one after the other;
//    meanwhile no other request of the channel starts;
//  - per-bank refresh: every refresh interval / banks the next bank of each pseudo channel is closed and refreshed; the
//    other banks go on (the references stop the whole channel here too, which no controller would).
//
// Nothing ticks: the next column and row command times are kept as lower bounds, and the clock jumps from one to the
// next.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "gpu/memory/bank_scan.h"
#include "gpu/memory/command_timings.h"

namespace kvtide::gpu {

struct ControllerSettings {
  std::int64_t queue_size = 64;  ///< reads, and as many writes, per channel; 1..4096
  double write_high = 0.8;       ///< of queue_size: writes start above
  double write_low = 0.2;        ///< of queue_size: reads resume below
  RefreshMode refresh = RefreshMode::all_bank;
};

constexpr int kRead = 0, kWrite = 1;  ///< kinds of requests

/// Bursts of one row, as the channel sees them: requests of their own that arrive together.
struct ChannelRequest {
  Tick arrival = 0;             ///< when they reached the channel, non-decreasing from call to call
  std::int32_t num_bursts = 1;  ///< > 0
  std::int32_t row = 0;
  std::uint8_t pseudo_channel = 0;
  std::uint8_t bank = 0;  ///< (stack_id * bank groups + bank group) * banks + bank
  bool is_write = false;
};

/// How many requests end at each tick; a ring over the next few hundred ticks, shared by all channels.
class CompletionCalendar {
 public:
  /// @param horizon  no completion lies further ahead of the oldest tick not yet taken
  explicit CompletionCalendar(Tick horizon);
  void add(Tick tick) { ++ring_[static_cast<std::size_t>(tick) & mask_]; }
  /// The count at `tick`, which is forgotten.
  std::int64_t take(Tick tick) {
    std::int32_t& slot = ring_[static_cast<std::size_t>(tick) & mask_];
    const std::int32_t count = slot;
    slot = 0;
    return count;
  }
  [[nodiscard]] std::int64_t peek(Tick tick) const { return ring_[static_cast<std::size_t>(tick) & mask_]; }

 private:
  std::vector<std::int32_t> ring_;
  std::size_t mask_;
};

struct ChannelCounters {
  std::int64_t reads = 0, writes = 0;  ///< column commands
  std::int64_t activates = 0;
  std::int64_t row_hits = 0;   ///< requests whose first command found their row open
  std::int64_t refreshes = 0;  ///< of a pseudo channel, or of a bank
  Tick read_latency = 0;       ///< sum over reads: from acceptance by the queue to the end of the data
};

class ChannelController {
 public:
  static constexpr Tick kNever = INT64_MAX / 4;

  ChannelController(const MemoryGeometry& geometry, const CommandTimings& timings, const ControllerSettings& settings);

  void arrive(const ChannelRequest& request);
  /// Earliest tick at which something may happen; kNever when idle and without refresh.
  [[nodiscard]] Tick next_event() const {
    const ShortTick next = std::min(std::min(next_column_, next_row_), next_refresh_);
    return std::min(next == kNotSoon ? kNever : epoch_ + next, next_arrival_);
  }
  /// Everything before `end`. A request ends read_latency after its column command; writes too.
  /// Approximation: the references free a write's slot at its column command, 40-50 ticks earlier; at 5 % writes and
  /// thousands of requests in flight the difference is below 0.1 % of the window.
  void run_until(Tick end, CompletionCalendar& completions);
  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr int kNumKinds = 2;  // read, write
  // Key of a candidate: bank, age, and whether it is only a row hit (requests that opened their row go first).
  static constexpr int kAgeShift = 6;
  static constexpr std::int32_t kHitKey = 1 << 30;
  static constexpr std::int32_t kMaxAge = 1 << 23;  // then ages are counted anew
  static constexpr ShortTick kEpoch = 1 << 28;      // then the epoch moves on

  /// A queued request, linked in order of arrival within its bank and kind.
  struct Node {
    ShortTick arrival = 0;
    std::int32_t age = 0;  // running number
    std::int32_t row = 0;
    std::int32_t previous = kNone, next = kNone;
    std::uint8_t pseudo_channel = 0, bank = 0, kind = 0;
    bool has_issued = false;  // a row command was issued for it
  };

  /// Requests of one bank and kind.
  struct BankQueue {
    std::int32_t head = kNone, tail = kNone;
    std::int32_t hit = kNone;   // oldest that wants the open row
    std::int32_t miss = kNone;  // oldest that does not
  };

  struct Bank {
    ShortTick activate_ready = 0;     // ACT after the last ACT
    std::int32_t opened_for = kNone;  // node whose ACT was issued and column command was not
    BankQueue queue[kNumKinds];
  };

  struct PseudoChannel {
    // Candidates of each bank: column commands (opened and hits), row commands (wanted and allowed).
    PerBank<std::int32_t> column_key[kNumKinds], row_key[kNumKinds];
    // Gates of a bank, those of its bank group included; row_gate is of PRE when the bank is open, of ACT when it is
    // closed. Those of columns and ACT are rounded to a clock. Gates of all banks are any_*.
    PerBank<ShortTick> column_gate[kNumKinds]{}, row_gate{};
    PerBank<std::int32_t> open_row;             // kNone: closed
    PerBank<ShortTick> group_activate_ready{};  // [first bank of a group]
    std::uint64_t open_banks = 0;
    std::uint64_t opened_banks[kNumKinds]{};  // those with an opened_for of the kind
    ShortTick any_column_ready[kNumKinds]{};
    int read_stack = 0;  // first bank of the last read's stack ID; the others wait longer
    ShortTick other_stacks_ready = 0;
    ShortTick any_activate_ready = 0, any_precharge_ready = 0, refresh_ready = 0;
    ShortTick refresh_gate = 0;                 // of REF to another bank
    ShortTick column_wake = 0, row_wake = 0;    // nothing is ready before; lower bounds
    std::array<ShortTick, 4> last_activates{};  // ring, oldest at activate_index
    int activate_index = 0;
    int refreshed_bank = kNone;  // that must be refreshed now; kNone: none
    PerBank<Bank> banks;
  };

  /// Requests that wait for a queue slot, in order of arrival: a growing ring.
  class Backlog {
   public:
    void push(const ChannelRequest& request);
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] const ChannelRequest& front() const { return ring_[head_]; }
    /// Takes one burst off the front.
    void pop_burst() {
      if (--ring_[head_].num_bursts > 0) return;
      head_ = (head_ + 1) & (ring_.size() - 1);
      --size_;
    }

   private:
    std::vector<ChannelRequest> ring_ = std::vector<ChannelRequest>(16);
    std::size_t head_ = 0, size_ = 0;
  };

  [[nodiscard]] ShortTick on_clock(ShortTick tick) const { return (tick + clock_mask_) & ~clock_mask_; }
  [[nodiscard]] int group_begin(int bank) const { return bank & ~(banks_per_group_ - 1); }

  // What waits, and what of it is a candidate.
  void accept(ShortTick now);
  void enqueue(const ChannelRequest& request, ShortTick now);
  void unlink(Bank& bank, const Node& node);
  void rescan_queue(PseudoChannel& pc, int bank, int kind);
  void update_column_candidate(PseudoChannel& pc, int bank, int kind);
  void update_row_candidate(PseudoChannel& pc, int bank, int kind);

  // Which command is next.
  void update_mode(ShortTick tick);
  void wake_column(PseudoChannel& pc, ShortTick tick);
  void wake_row(PseudoChannel& pc, ShortTick tick);
  void wake_all(ShortTick tick);
  [[nodiscard]] ShortTick column_time(const PseudoChannel& pc, int bank, int kind) const;
  [[nodiscard]] ShortTick row_time(const PseudoChannel& pc, int bank) const;
  [[nodiscard]] BankScan scan_opened(const PseudoChannel& pc, int kind, ShortTick now) const;
  [[nodiscard]] BankScan scan_columns(const PseudoChannel& pc, ShortTick now) const;
  [[nodiscard]] ShortTick next_column_of(const PseudoChannel& pc) const;
  [[nodiscard]] BankScan scan_rows(const PseudoChannel& pc, ShortTick now) const;
  void try_column(ShortTick now, CompletionCalendar& completions);
  void try_row(ShortTick now);

  // What each command does to the gates and the queues.
  void issue_column(PseudoChannel& pc, ShortTick now, std::int32_t index, CompletionCalendar& completions);
  void issue_activate(PseudoChannel& pc, ShortTick now, std::int32_t index);
  void issue_precharge(PseudoChannel& pc, ShortTick now, std::int32_t index);
  void close_bank(PseudoChannel& pc, int bank, ShortTick now);
  void raise_group_columns(PseudoChannel& pc, int bank, int kind, Tick tick);
  void hold_row_bus(ShortTick now, Tick ticks);

  // channel_refresh.cc
  void try_refresh(ShortTick now);
  void start_bank_refresh(ShortTick now);
  bool try_bank_refresh(ShortTick now);
  void close_all(PseudoChannel& pc, ShortTick now);

  // channel_renumber.cc: before numbers grow too large
  void move_epoch(Tick tick);
  void renumber_ages();

  CommandTimings timings_;
  ControllerSettings settings_;
  int num_pseudo_channels_, num_banks_, banks_per_group_, banks_per_stack_;
  int num_scanned_;            // num_banks_, rounded up for the scans
  bool has_scannable_stacks_;  // a scan can be limited to one stack ID
  BankScanner scanner_;
  ShortTick clock_mask_;
  std::int64_t write_high_, write_low_;  // requests
  std::vector<PseudoChannel> pseudo_channels_;
  std::vector<Node> nodes_;
  std::int32_t free_node_ = kNone;  // first of a list linked by next
  Backlog backlog_;
  // Of the first in the backlog; kNever while its queue is full or none waits; 0 when a slot was freed: look again.
  Tick next_arrival_ = kNever;
  std::int64_t queued_[kNumKinds]{};
  std::int32_t age_ = 0;
  int mode_ = 0;  // kind being served
  Tick epoch_ = 0;
  ShortTick column_bus_free_ = 0, row_bus_free_ = 0;
  ShortTick next_column_ = kNotSoon, next_row_ = kNotSoon, next_refresh_ = kNotSoon;
  int refresh_target_ = kNone;  // pseudo channel to be refreshed next; kNone: no all-bank refresh pending
  ShortTick refresh_interval_ = 0;
  ShortTick next_bank_refresh_ = kNotSoon;
  int next_refreshed_bank_ = 0;
  bool has_bank_refresh_ = false;  // some pseudo channel has a refreshed_bank
  ChannelCounters counters_;
};

}  // namespace kvtide::gpu
