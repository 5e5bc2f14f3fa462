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
//  - every refresh interval both pseudo channels are closed and refreshed, one after the other; meanwhile no other
//  request of
//    the channel starts.
//
// Nothing ticks: the next column and row command times are kept as lower bounds, and the clock jumps from one to the
// next.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "gpu/memory/command_timings.h"

namespace kvtide::gpu {

struct ControllerSettings {
  std::int64_t queue_size = 64;  ///< reads, and as many writes, per channel; 1..4096
  double write_high = 0.8;       ///< of queue_size: writes start above
  double write_low = 0.2;        ///< of queue_size: reads resume below
  bool has_refresh = true;
};

/// A burst at a bank, as the channel sees it.
struct ChannelRequest {
  Tick arrival = 0;  ///< when it reached the channel, non-decreasing from call to call
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
  std::int64_t refreshes = 0;  ///< of a pseudo channel
  Tick read_latency = 0;       ///< sum over reads: from acceptance by the queue to the end of the data
};

class ChannelController {
 public:
  static constexpr Tick kNever = INT64_MAX / 4;

  ChannelController(const MemoryGeometry& geometry, const CommandTimings& timings, const ControllerSettings& settings);

  void arrive(const ChannelRequest& request) { backlog_.push(request); }
  /// Earliest tick at which something may happen; kNever when idle and without refresh.
  [[nodiscard]] Tick next_event() const;
  /// Everything before `end`. A request ends read_latency after its column command; writes too.
  /// Approximation: the references free a write's slot at its column command, 40-50 ticks earlier; at 5 % writes and
  /// thousands of requests in flight the difference is below 0.1 % of the window.
  void run_until(Tick end, CompletionCalendar& completions);
  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr int kMaxBanks = 64;
  static constexpr int kNumKinds = 2;  // read, write

  /// A queued request, linked in order of arrival within its bank and kind.
  struct Node {
    Tick arrival = 0;
    std::int64_t serial = 0;
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

  struct PseudoChannel {
    std::array<Tick, kMaxBanks> column_ready[kNumKinds]{};
    std::array<Tick, kMaxBanks> activate_ready{}, precharge_ready{};
    std::array<Tick, kMaxBanks> group_column_ready[kNumKinds]{};  // [stack_id * groups + group]
    std::array<Tick, kMaxBanks> group_activate_ready{};
    std::array<Tick, kMaxBanks> stack_read_ready{};
    Tick any_column_ready[kNumKinds]{};
    Tick any_activate_ready = 0, any_precharge_ready = 0, precharge_all_ready = 0, refresh_ready = 0;
    std::array<Tick, 4> last_activates{};  // ring, oldest at activate_index
    int activate_index = 0;
    std::array<std::int32_t, kMaxBanks> open_row{};    // kNone: closed
    std::array<std::int32_t, kMaxBanks> opened_for{};  // node whose ACT was issued and column command was not
    std::array<BankQueue, kMaxBanks> queue[kNumKinds]{};
    std::array<std::int64_t, kMaxBanks> hit_serial[kNumKinds]{}, row_serial[kNumKinds]{};  // of queue's hit and miss
    std::array<std::int64_t, kMaxBanks> opened_serial{};                                   // of opened_for
    std::uint64_t open_banks = 0, opened_banks = 0;  // opened_banks: those with an opened_for
    std::uint64_t hit_banks[kNumKinds]{};            // a waiting request wants the open row
    std::uint64_t row_banks[kNumKinds]{};            // a row command is wanted and allowed
  };

  /// Requests that wait for a queue slot, in order of arrival: a growing ring.
  class Backlog {
   public:
    void push(const ChannelRequest& request);
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] const ChannelRequest& front() const { return ring_[head_]; }
    void pop() {
      head_ = (head_ + 1) & (ring_.size() - 1);
      --size_;
    }

   private:
    std::vector<ChannelRequest> ring_ = std::vector<ChannelRequest>(16);
    std::size_t head_ = 0, size_ = 0;
  };

  [[nodiscard]] Tick on_clock(Tick tick) const { return (tick + clock_mask_) & ~clock_mask_; }
  /// The oldest ready candidate of a scan, and when the next one of the others is ready.
  struct Choice {
    std::uint64_t key = UINT64_MAX;  // serial, pseudo channel, bank
    Tick next = kNever;
    void offer(std::int64_t serial, int pseudo_channel, int bank, Tick ready, Tick now) {
      const auto candidate =
          static_cast<std::uint64_t>(serial) << 7 | static_cast<std::uint64_t>(pseudo_channel << 6 | bank);
      const bool is_ready = ready <= now;
      key = std::min(key, is_ready ? candidate : UINT64_MAX);
      next = std::min(next, is_ready ? kNever : ready);
    }
    [[nodiscard]] bool is_found() const { return key != UINT64_MAX; }
    [[nodiscard]] int pseudo_channel() const { return static_cast<int>(key >> 6 & 1); }
    [[nodiscard]] int bank() const { return static_cast<int>(key & 63); }
  };

  [[nodiscard]] Tick column_time(const PseudoChannel& pc, int bank, int kind) const;
  [[nodiscard]] Tick row_time(const PseudoChannel& pc, int bank, bool is_open) const;
  void accept(Tick now);
  void enqueue(const ChannelRequest& request, Tick now);
  void unlink(std::int32_t index);
  void rescan_queue(PseudoChannel& pc, int bank, int kind);
  void update_row_candidate(PseudoChannel& pc, int bank, int kind);
  void update_mode();
  void try_column(Tick now, CompletionCalendar& completions);
  void try_row(Tick now);
  void try_refresh(Tick now);
  void issue_column(Tick now, std::int32_t index, CompletionCalendar& completions);
  void issue_activate(Tick now, std::int32_t index);
  void issue_precharge(Tick now, std::int32_t index);
  void close_all(PseudoChannel& pc, Tick now);
  void hold_row_bus(Tick now, Tick ticks);

  CommandTimings timings_;
  ControllerSettings settings_;
  int num_pseudo_channels_, num_banks_, group_shift_, stack_shift_, num_stack_ids_;
  Tick clock_mask_;
  std::vector<PseudoChannel> pseudo_channels_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> free_nodes_;
  Backlog backlog_;
  std::int64_t queued_[kNumKinds]{};
  std::int64_t serial_ = 0;
  int mode_ = 0;  // kind being served
  Tick column_bus_free_ = 0, row_bus_free_ = 0;
  Tick next_column_ = kNever, next_row_ = kNever, next_refresh_ = kNever;
  int refresh_target_ = kNone;  // pseudo channel to be refreshed next; kNone: no refresh pending
  ChannelCounters counters_;
};

}  // namespace kvtide::gpu
