#include "gpu/memory/channel_controller.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvtide::gpu {
namespace {

void raise_range(ShortTick* gates, int count, ShortTick tick) {
  if (count == 4) {  // the usual bank group: one vector instruction
    for (int i = 0; i < 4; ++i) gates[i] = std::max(gates[i], tick);
  } else {
    for (int i = 0; i < count; ++i) gates[i] = std::max(gates[i], tick);
  }
}

}  // namespace

CompletionCalendar::CompletionCalendar(Tick horizon)
    : ring_(std::bit_ceil(static_cast<std::size_t>(horizon) + 1), 0), mask_(ring_.size() - 1) {}

ChannelController::ChannelController(const MemoryGeometry& geometry, const CommandTimings& timings,
                                     const ControllerSettings& settings)
    : timings_(timings),
      settings_(settings),
      num_pseudo_channels_(static_cast<int>(geometry.num_pseudo_channels)),
      num_banks_(static_cast<int>(geometry.banks_per_pseudo_channel())),
      banks_per_group_(static_cast<int>(geometry.num_banks)),
      banks_per_stack_(static_cast<int>(geometry.num_bank_groups * geometry.num_banks)),
      num_scanned_((num_banks_ + kBanksPerScan - 1) / kBanksPerScan * kBanksPerScan),
      has_scannable_stacks_(banks_per_stack_ % kBanksPerScan == 0),
      scanner_(best_bank_scanner()),
      clock_mask_(static_cast<ShortTick>(timings.clock - 1)),
      // Whole requests on either side of the marks: writes > high and writes < low.
      write_high_(
          static_cast<std::int64_t>(std::floor(settings.write_high * static_cast<double>(settings.queue_size)))),
      write_low_(static_cast<std::int64_t>(std::ceil(settings.write_low * static_cast<double>(settings.queue_size)))),
      pseudo_channels_(static_cast<std::size_t>(num_pseudo_channels_)) {
  for (PseudoChannel& pc : pseudo_channels_) {
    pc.open_row.fill(kNone);
    pc.last_activates.fill(static_cast<ShortTick>(-timings.four_acts));
    for (int kind : {kRead, kWrite}) {
      pc.column_key[kind].fill(kNoKey);
      pc.row_key[kind].fill(kNoKey);
    }
  }
  // Two queues, and one opened request per bank that has left its queue.
  nodes_.resize(static_cast<std::size_t>(2 * settings.queue_size) +
                static_cast<std::size_t>(num_pseudo_channels_) * static_cast<std::size_t>(num_banks_));
  for (auto i = static_cast<std::int32_t>(nodes_.size()); i-- > 0;) {
    nodes_[i].next = free_node_;
    free_node_ = i;
  }
  refresh_interval_ = static_cast<ShortTick>(
      settings.refresh == RefreshMode::per_bank ? timings.refresh_interval / num_banks_ : timings.refresh_interval);
  if (settings.refresh != RefreshMode::none && refresh_interval_ > 0) next_refresh_ = refresh_interval_;
}

void ChannelController::Backlog::push(const ChannelRequest& request) {
  if (size_ == ring_.size()) {
    std::vector<ChannelRequest> larger(2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    head_ = 0;
  }
  ring_[(head_ + size_++) & (ring_.size() - 1)] = request;
}

void ChannelController::arrive(const ChannelRequest& request) {
  if (backlog_.empty()) next_arrival_ = request.arrival;
  backlog_.push(request);
}

/// What has arrived by `now` and finds room.
void ChannelController::accept(ShortTick now) {
  next_arrival_ = kNever;
  while (!backlog_.empty()) {
    const ChannelRequest& first = backlog_.front();
    if (queued_[first.is_write ? kWrite : kRead] >= settings_.queue_size) return;
    if (first.arrival > epoch_ + now) {
      next_arrival_ = first.arrival;
      return;
    }
    enqueue(first, now);
    backlog_.pop_burst();
  }
}

void ChannelController::enqueue(const ChannelRequest& request, ShortTick now) {
  if (age_ == kMaxAge) renumber_ages();
  const std::int32_t index = free_node_;
  Node& node = nodes_[index];
  free_node_ = node.next;
  const int kind = request.is_write ? kWrite : kRead;
  const int bank = request.bank;
  PseudoChannel& pc = pseudo_channels_[request.pseudo_channel];
  BankQueue& queue = pc.banks[bank].queue[kind];
  node = {.arrival = now,
          .age = age_++,
          .row = request.row,
          .previous = queue.tail,
          .next = kNone,
          .pseudo_channel = request.pseudo_channel,
          .bank = request.bank,
          .kind = static_cast<std::uint8_t>(kind),
          .has_issued = false};
  (queue.tail == kNone ? queue.head : nodes_[queue.tail].next) = index;
  queue.tail = index;
  ++queued_[kind];
  if (pc.open_row[bank] == request.row) {
    if (queue.hit == kNone) {
      queue.hit = index;
      update_column_candidate(pc, bank, kind);
      if (pc.column_key[kind][bank] != kNoKey) wake_column(pc, std::max(now, column_time(pc, bank, kind)));
    }
  } else if (queue.miss == kNone) {
    queue.miss = index;
    update_row_candidate(pc, bank, kind);
    if (pc.row_key[kind][bank] != kNoKey) wake_row(pc, std::max(now, row_time(pc, bank)));
  }
}

void ChannelController::unlink(Bank& bank, const Node& node) {
  BankQueue& queue = bank.queue[node.kind];
  (node.previous == kNone ? queue.head : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? queue.tail : nodes_[node.next].previous) = node.previous;
  --queued_[node.kind];
  next_arrival_ = 0;
}

/// After a row was opened.
void ChannelController::rescan_queue(PseudoChannel& pc, int bank, int kind) {
  BankQueue& queue = pc.banks[bank].queue[kind];
  const std::int32_t open_row = pc.open_row[bank];
  queue.hit = queue.miss = kNone;
  for (std::int32_t i = queue.head; i != kNone; i = nodes_[i].next) {
    std::int32_t& oldest = nodes_[i].row == open_row ? queue.hit : queue.miss;
    if (oldest == kNone) oldest = i;
    if (queue.hit != kNone && queue.miss != kNone) break;
  }
  update_column_candidate(pc, bank, kind);
  update_row_candidate(pc, bank, kind);
}

void ChannelController::update_column_candidate(PseudoChannel& pc, int bank, int kind) {
  std::int32_t key = kNoKey;
  if (pc.opened_banks[kind] & bit(bank)) {
    key = nodes_[pc.banks[bank].opened_for].age << kAgeShift | bank;
  } else if (const std::int32_t hit = pc.banks[bank].queue[kind].hit; hit != kNone && pc.refreshed_bank != bank) {
    key = kHitKey | nodes_[hit].age << kAgeShift | bank;
  }
  pc.column_key[kind][bank] = key;
}

void ChannelController::update_row_candidate(PseudoChannel& pc, int bank, int kind) {
  const BankQueue& queue = pc.banks[bank].queue[kind];
  // A closed bank has no hits. An open one may be closed unless somebody's ACT is pending there or an older hit waits.
  const bool is_wanted = queue.miss != kNone && pc.banks[bank].opened_for == kNone && pc.refreshed_bank != bank &&
                         (queue.hit == kNone || nodes_[queue.hit].arrival > nodes_[queue.miss].arrival);
  pc.row_key[kind][bank] = is_wanted ? nodes_[queue.miss].age << kAgeShift | bank : kNoKey;
}

ShortTick ChannelController::column_time(const PseudoChannel& pc, int bank, int kind) const {
  ShortTick ready = std::max({pc.column_gate[kind][bank], pc.any_column_ready[kind], column_bus_free_});
  if (kind == kRead && (bank & ~(banks_per_stack_ - 1)) != pc.read_stack)
    ready = std::max(ready, pc.other_stacks_ready);
  return on_clock(ready);
}

ShortTick ChannelController::row_time(const PseudoChannel& pc, int bank) const {
  const ShortTick ready = std::max(pc.row_gate[bank], row_bus_free_);
  return pc.open_row[bank] != kNone ? std::max(ready, pc.any_precharge_ready)
                                    : on_clock(std::max(ready, pc.any_activate_ready));
}

void ChannelController::wake_column(PseudoChannel& pc, ShortTick tick) {
  pc.column_wake = std::min(pc.column_wake, tick);
  next_column_ = std::min(next_column_, tick);
}

void ChannelController::wake_row(PseudoChannel& pc, ShortTick tick) {
  pc.row_wake = std::min(pc.row_wake, tick);
  next_row_ = std::min(next_row_, tick);
}

void ChannelController::wake_all(ShortTick tick) {
  for (PseudoChannel& pc : pseudo_channels_) pc.column_wake = pc.row_wake = tick;
  next_column_ = next_row_ = tick;
}

/// Chooses the kind to be served from `tick` on.
void ChannelController::update_mode(ShortTick tick) {
  const int mode = mode_;
  if (mode_ == kRead) {
    if (queued_[kRead] == 0 || queued_[kWrite] > write_high_) mode_ = kWrite;
  } else if (queued_[kRead] != 0 && queued_[kWrite] < write_low_) {
    mode_ = kRead;
  }
  if (mode != mode_) wake_all(tick);
}

/// Requests of one kind whose row was opened for them.
BankScan ChannelController::scan_opened(const PseudoChannel& pc, int kind, ShortTick now) const {
  BankScan scan;
  for (std::uint64_t banks = pc.opened_banks[kind]; banks != 0; banks &= banks - 1) {
    const int bank = std::countr_zero(banks);
    const ShortTick ready = column_time(pc, bank, kind);
    if (ready <= now) scan.oldest = std::min(scan.oldest, pc.column_key[kind][bank]);
    scan.next = std::min(scan.next, ready);
  }
  return scan;
}

/// Column commands of the kind being served, row hits included.
BankScan ChannelController::scan_columns(const PseudoChannel& pc, ShortTick now) const {
  if (refresh_target_ != kNone) return scan_opened(pc, mode_, now);
  const PerBank<std::int32_t>& key = pc.column_key[mode_];
  const PerBank<ShortTick>& gate = pc.column_gate[mode_];
  // A gate of many banks is a lower bound for all of them.
  if (const ShortTick any = pc.any_column_ready[mode_]; any > now) return {.oldest = kNoKey, .next = on_clock(any)};
  if (mode_ == kWrite || pc.other_stacks_ready <= now || !has_scannable_stacks_) {
    return scanner_.columns(key.data(), gate.data(), num_scanned_, now);
  }
  BankScan scan = scanner_.columns(&key[pc.read_stack], &gate[pc.read_stack], banks_per_stack_, now);
  if (scan.oldest == kNoKey) {
    const ShortTick elsewhere = scanner_.columns(key.data(), gate.data(), num_scanned_, now).next;
    if (elsewhere < scan.next) scan.next = std::min(scan.next, on_clock(std::max(elsewhere, pc.other_stacks_ready)));
  }
  return scan;
}

/// Lower bound of a pseudo channel's next column command.
ShortTick ChannelController::next_column_of(const PseudoChannel& pc) const {
  if (refresh_target_ != kNone || pc.opened_banks[1 - mode_] != 0) return column_bus_free_;
  const ShortTick next =
      scanner_.columns(pc.column_key[mode_].data(), pc.column_gate[mode_].data(), num_scanned_, 0).next;
  return next == kNotSoon ? kNotSoon : std::max(next, on_clock(pc.any_column_ready[mode_]));
}

void ChannelController::issue_column(PseudoChannel& pc, ShortTick now, std::int32_t index,
                                     CompletionCalendar& completions) {
  Node& node = nodes_[index];
  const int bank = node.bank;
  const int kind = node.kind;
  Bank& state = pc.banks[bank];
  column_bus_free_ = now + static_cast<ShortTick>(timings_.column_bus);
  if (timings_.one_command_bus) raise_to(row_bus_free_, column_bus_free_);
  Tick precharge = now;
  if (kind == kRead) {
    raise_to(pc.any_column_ready[kRead], now + timings_.read_to_read);
    raise_group_columns(pc, bank, kRead, now + timings_.read_to_read_same_group);
    // Only the last read counts: the one before it in another stack ID was at least as far away.
    pc.read_stack = bank & ~(banks_per_stack_ - 1);
    pc.other_stacks_ready = now + static_cast<ShortTick>(timings_.read_to_read_other_stack);
    if (!has_scannable_stacks_) {
      for (int other = 0; other < num_banks_; ++other) {
        if ((other & ~(banks_per_stack_ - 1)) != pc.read_stack)
          raise_to(pc.column_gate[kRead][other], pc.other_stacks_ready);
      }
    }
    raise_to(pc.any_column_ready[kWrite], now + timings_.read_to_write);
    precharge += timings_.read_to_pre;
    ++counters_.reads;
    counters_.read_latency += now + timings_.read_latency - node.arrival + 1;
  } else {
    raise_to(pc.any_column_ready[kWrite], now + timings_.write_to_write);
    raise_group_columns(pc, bank, kWrite, now + timings_.write_to_write_same_group);
    raise_to(pc.any_column_ready[kRead], now + timings_.write_to_read);
    raise_group_columns(pc, bank, kRead, now + timings_.write_to_read_same_group);
    precharge += timings_.write_to_pre;
    ++counters_.writes;
  }
  raise_to(pc.row_gate[bank], precharge);
  completions.add(epoch_ + now + timings_.read_latency);
  if (!node.has_issued) ++counters_.row_hits;

  if (state.opened_for == index) {
    state.opened_for = kNone;
    pc.opened_banks[kind] &= ~bit(bank);
    for (const int waiting : {kRead, kWrite}) {
      if (state.queue[waiting].miss != kNone) update_row_candidate(pc, bank, waiting);
    }
    if (refresh_target_ != kNone || pc.refreshed_bank == bank) wake_row(pc, now);
  } else {
    unlink(state, node);
    BankQueue& queue = state.queue[kind];
    std::int32_t next = node.next;
    while (next != kNone && nodes_[next].row != node.row) next = nodes_[next].next;
    queue.hit = next;
    if (queue.miss != kNone) update_row_candidate(pc, bank, kind);
  }
  update_column_candidate(pc, bank, kind);
  if (pc.row_key[mode_][bank] != kNoKey) wake_row(pc, std::max(now, row_time(pc, bank)));
  node.next = free_node_;
  free_node_ = index;
}

void ChannelController::raise_group_columns(PseudoChannel& pc, int bank, int kind, Tick tick) {
  raise_range(&pc.column_gate[kind][group_begin(bank)], banks_per_group_, on_clock(static_cast<ShortTick>(tick)));
}

void ChannelController::hold_row_bus(ShortTick now, Tick ticks) {
  row_bus_free_ = now + static_cast<ShortTick>(ticks);
  if (timings_.one_command_bus) raise_to(column_bus_free_, row_bus_free_);
}

void ChannelController::issue_activate(PseudoChannel& pc, ShortTick now, std::int32_t index) {
  Node& node = nodes_[index];
  const int bank = node.bank;
  Bank& state = pc.banks[bank];
  hold_row_bus(now, timings_.activate_bus);
  raise_to(pc.column_gate[kRead][bank], on_clock(now + static_cast<ShortTick>(timings_.act_to_read)));
  raise_to(pc.column_gate[kWrite][bank], on_clock(now + static_cast<ShortTick>(timings_.act_to_write)));
  pc.open_row[bank] = node.row;
  pc.open_banks |= bit(bank);
  raise_to(state.activate_ready, now + timings_.act_to_act_same_bank);
  const int group = group_begin(bank);
  const ShortTick group_ready = on_clock(now + static_cast<ShortTick>(timings_.act_to_act_same_group));
  raise_to(pc.group_activate_ready[group], group_ready);
  for (int i = group; i < group + banks_per_group_; ++i) {
    if (pc.open_row[i] == kNone) raise_to(pc.row_gate[i], group_ready);
  }
  pc.row_gate[bank] = now + static_cast<ShortTick>(timings_.act_to_pre);
  pc.last_activates[pc.activate_index] = now;
  pc.activate_index = (pc.activate_index + 1) & 3;
  raise_to(pc.any_activate_ready,
           std::max(now + timings_.act_to_act, pc.last_activates[pc.activate_index] + timings_.four_acts));
  raise_to(pc.refresh_ready, now + timings_.act_to_refresh);
  ++counters_.activates;

  node.has_issued = true;
  unlink(state, node);
  state.opened_for = index;
  pc.opened_banks[node.kind] |= bit(bank);
  for (const int kind : {kRead, kWrite}) {
    if (kind == node.kind || state.queue[kind].head != kNone) rescan_queue(pc, bank, kind);
  }
  wake_column(pc, std::max(now + 1, column_time(pc, bank, node.kind)));
}

/// A bank was closed at `now`: what its next ACT waits for. All that wait there miss, the oldest goes first.
void ChannelController::close_bank(PseudoChannel& pc, int bank, ShortTick now) {
  Bank& state = pc.banks[bank];
  pc.open_row[bank] = kNone;
  pc.open_banks &= ~bit(bank);
  pc.row_gate[bank] =
      std::max(on_clock(std::max(state.activate_ready, now + static_cast<ShortTick>(timings_.pre_to_act))),
               pc.group_activate_ready[group_begin(bank)]);
  for (const int kind : {kRead, kWrite}) {
    BankQueue& queue = state.queue[kind];
    queue.hit = kNone;
    queue.miss = queue.head;
    pc.column_key[kind][bank] = kNoKey;
    if (queue.head != kNone) update_row_candidate(pc, bank, kind);
  }
}

void ChannelController::issue_precharge(PseudoChannel& pc, ShortTick now, std::int32_t index) {
  Node& node = nodes_[index];
  hold_row_bus(now, timings_.precharge_bus);
  raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
  raise_to(pc.refresh_ready, now + timings_.pre_to_refresh);
  node.has_issued = true;
  close_bank(pc, node.bank, now);
}

void ChannelController::try_column(ShortTick now, CompletionCalendar& completions) {
  if (column_bus_free_ > now || (now & clock_mask_) != 0) {
    next_column_ = on_clock(std::max(now, column_bus_free_));
    return;
  }
  std::int32_t best = kNoKey;
  PseudoChannel* chosen = nullptr;
  int chosen_kind = mode_;
  for (PseudoChannel& pc : pseudo_channels_) {
    if (pc.column_wake > now) continue;
    BankScan scan = scan_columns(pc, now);
    int kind = mode_;
    if (pc.opened_banks[1 - mode_] != 0) {
      const BankScan other = scan_opened(pc, 1 - mode_, now);
      if (other.oldest < scan.oldest) kind = 1 - mode_;
      scan = {.oldest = std::min(scan.oldest, other.oldest), .next = std::min(scan.next, other.next)};
    }
    if (scan.oldest == kNoKey) {
      pc.column_wake = scan.next;
    } else if (scan.oldest < best) {
      best = scan.oldest;
      chosen = &pc;
      chosen_kind = kind;
    }
  }
  if (chosen != nullptr) {
    const Bank& bank = chosen->banks[best & (kMaxBanks - 1)];
    issue_column(*chosen, now, best < kHitKey ? bank.opened_for : bank.queue[chosen_kind].hit, completions);
    chosen->column_wake = next_column_of(*chosen);
  }
  next_column_ = kNotSoon;
  for (const PseudoChannel& pc : pseudo_channels_) next_column_ = std::min(next_column_, pc.column_wake);
  next_column_ = std::max(next_column_, column_bus_free_);
}

/// Row commands of the kind being served. ACT starts on a clock, PRE on any tick.
BankScan ChannelController::scan_rows(const PseudoChannel& pc, ShortTick now) const {
  const RowGates gates{.open_row = pc.open_row.data(),
                       .precharge = pc.any_precharge_ready,
                       .activate = on_clock(std::max(now, pc.any_activate_ready))};
  return scanner_.rows(pc.row_key[mode_].data(), pc.row_gate.data(), gates, num_scanned_, now);
}

void ChannelController::try_row(ShortTick now) {
  if (row_bus_free_ > now) {
    next_row_ = row_bus_free_;
    return;
  }
  if (has_bank_refresh_ && try_bank_refresh(now)) return;
  std::int32_t best = kNoKey;
  PseudoChannel* chosen = nullptr;
  for (PseudoChannel& pc : pseudo_channels_) {
    if (pc.row_wake > now) continue;
    const BankScan scan = scan_rows(pc, now);
    if (scan.oldest == kNoKey) {
      pc.row_wake = scan.next;
    } else if (scan.oldest < best) {
      best = scan.oldest;
      chosen = &pc;
    }
  }
  if (chosen != nullptr) {
    const int bank = best & (kMaxBanks - 1);
    const std::int32_t index = chosen->banks[bank].queue[mode_].miss;
    if (chosen->open_row[bank] != kNone) {
      issue_precharge(*chosen, now, index);
    } else {
      issue_activate(*chosen, now, index);
    }
    // What is left waits at least for the gate of its kind.
    chosen->row_wake = std::min(chosen->any_precharge_ready, on_clock(chosen->any_activate_ready));
  }
  next_row_ = next_bank_refresh_;
  for (const PseudoChannel& pc : pseudo_channels_) next_row_ = std::min(next_row_, pc.row_wake);
  next_row_ = std::max(next_row_, row_bus_free_);
}

void ChannelController::run_until(Tick end, CompletionCalendar& completions) {
  for (Tick tick = next_event(); tick < end; tick = next_event()) {
    if (tick - epoch_ >= kEpoch) move_epoch(tick);
    const auto now = static_cast<ShortTick>(tick - epoch_);
    if (next_arrival_ <= tick) {
      accept(now);
      if (refresh_target_ == kNone) update_mode(now);
    }
    if (next_refresh_ <= now) {
      next_refresh_ += refresh_interval_;
      if (settings_.refresh == RefreshMode::per_bank) {
        start_bank_refresh(now);
      } else {
        refresh_target_ = 0;
        wake_all(now);
      }
    }
    if (next_column_ <= now) try_column(now, completions);
    if (next_row_ <= now) {
      if (refresh_target_ != kNone) {
        try_refresh(now);
      } else {
        try_row(now);
      }
    }
    if (next_arrival_ <= tick + 1) accept(now + 1);  // slots freed in this tick are filled before the next
    if (refresh_target_ == kNone) update_mode(now + 1);
  }
}

}  // namespace kvtide::gpu
