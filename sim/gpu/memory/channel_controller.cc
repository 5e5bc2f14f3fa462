#include "gpu/memory/channel_controller.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvtide::gpu {

CompletionCalendar::CompletionCalendar(Tick horizon)
    : ring_(std::bit_ceil(static_cast<std::size_t>(horizon) + 1), 0), mask_(ring_.size() - 1) {}

void ChannelController::Backlog::push(const ChannelRequest& request) {
  if (size_ == ring_.size()) {
    std::vector<ChannelRequest> larger(2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    head_ = 0;
  }
  ring_[(head_ + size_++) & (ring_.size() - 1)] = request;
}

ChannelController::ChannelController(const MemoryGeometry& geometry, const CommandTimings& timings,
                                     const ControllerSettings& settings)
    : timings_(timings),
      settings_(settings),
      num_pseudo_channels_(static_cast<int>(geometry.num_pseudo_channels)),
      num_banks_(static_cast<int>(geometry.banks_per_pseudo_channel())),
      banks_per_group_(static_cast<int>(geometry.num_banks)),
      group_shift_(std::countr_zero(static_cast<std::uint64_t>(geometry.num_banks))),
      banks_per_stack_(static_cast<int>(geometry.num_bank_groups * geometry.num_banks)),
      stack_mask_(banks_per_stack_ == kMaxBanks ? ~std::uint64_t{0} : bit(banks_per_stack_) - 1),
      clock_mask_(static_cast<ShortTick>(timings.clock - 1)),
      // Whole requests on either side of the marks: writes > high and writes < low.
      write_high_(
          static_cast<std::int64_t>(std::floor(settings.write_high * static_cast<double>(settings.queue_size)))),
      write_low_(static_cast<std::int64_t>(std::ceil(settings.write_low * static_cast<double>(settings.queue_size)))),
      pseudo_channels_(static_cast<std::size_t>(num_pseudo_channels_)) {
  for (PseudoChannel& pc : pseudo_channels_) {
    pc.open_row.fill(kNone);
    pc.opened_for.fill(kNone);
    pc.last_activates.fill(static_cast<ShortTick>(-timings.four_acts));
    for (int kind : {kRead, kWrite}) {
      pc.column_key[kind].fill(kNoKey);
      pc.row_key[kind].fill(kNoKey);
    }
  }
  // Two queues, and one opened request per bank that has left its queue.
  const auto num_nodes = static_cast<std::size_t>(2 * settings.queue_size) +
                         static_cast<std::size_t>(num_pseudo_channels_) * static_cast<std::size_t>(num_banks_);
  nodes_.resize(num_nodes);
  for (std::size_t i = num_nodes; i-- > 0;) free_nodes_.push_back(static_cast<std::int32_t>(i));
  refresh_interval_ = static_cast<ShortTick>(
      settings.refresh == RefreshMode::per_bank ? timings.refresh_interval / num_banks_ : timings.refresh_interval);
  if (settings.refresh != RefreshMode::none && refresh_interval_ > 0) next_refresh_ = refresh_interval_;
}

Tick ChannelController::next_event() const {
  const ShortTick next = std::min(std::min(next_column_, next_row_), next_refresh_);
  return std::min(next == kNotSoon ? kNever : epoch_ + next, next_arrival());
}

void ChannelController::run_until(Tick end, CompletionCalendar& completions) {
  for (Tick tick = next_event(); tick < end; tick = next_event()) {
    if (tick - epoch_ >= kEpoch) move_epoch(tick);
    const auto now = static_cast<ShortTick>(tick - epoch_);
    if (next_arrival() <= tick) accept(now);
    if (refresh_target_ == kNone) update_mode(now);
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
    if (next_arrival() <= tick + 1) accept(now + 1);  // slots freed in this tick are filled before the next
    if (refresh_target_ == kNone) update_mode(now + 1);
  }
}

/// Makes `tick` the zero of all short ticks (rounded to a clock). What lies in the past allows as much as zero does.
void ChannelController::move_epoch(Tick tick) {
  const Tick shift = (tick - epoch_) & ~static_cast<Tick>(clock_mask_);
  const auto move = [shift](ShortTick& time) {
    if (time != kNotSoon) time = static_cast<ShortTick>(std::max<Tick>(time - shift, 0));
  };
  const auto move_past = [shift](ShortTick& time) {
    time = static_cast<ShortTick>(std::max<Tick>(time - shift, -(Tick{1} << 30)));
  };
  epoch_ += shift;
  for (PseudoChannel& pc : pseudo_channels_) {
    for (PerBank<ShortTick>* gates : {&pc.column_ready[kRead], &pc.column_ready[kWrite], &pc.row_ready,
                                      &pc.activate_ready, &pc.group_activate_ready}) {
      for (ShortTick& gate : *gates) move(gate);
    }
    for (ShortTick* gate : {&pc.any_column_ready[kRead], &pc.any_column_ready[kWrite], &pc.any_activate_ready,
                            &pc.any_precharge_ready, &pc.precharge_all_ready, &pc.refresh_ready, &pc.refresh_gate,
                            &pc.other_stacks_ready, &pc.column_wake, &pc.row_wake}) {
      move(*gate);
    }
    for (ShortTick& activate : pc.last_activates) move_past(activate);
  }
  for (Node& node : nodes_) move_past(node.arrival);
  for (ShortTick* time :
       {&column_bus_free_, &row_bus_free_, &next_column_, &next_row_, &next_refresh_, &next_bank_refresh_}) {
    move(*time);
  }
}

/// Counts the ages of the waiting requests from zero again, in the same order.
void ChannelController::renumber() {
  std::vector<std::int32_t> waiting;
  for (const PseudoChannel& pc : pseudo_channels_) {
    for (int bank = 0; bank < num_banks_; ++bank) {
      if (pc.opened_for[bank] != kNone) waiting.push_back(pc.opened_for[bank]);
      for (const int kind : {kRead, kWrite}) {
        for (std::int32_t i = pc.queue[kind][bank].head; i != kNone; i = nodes_[i].next) waiting.push_back(i);
      }
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [this](std::int32_t a, std::int32_t b) { return nodes_[a].age < nodes_[b].age; });
  age_ = 0;
  for (const std::int32_t index : waiting) nodes_[index].age = age_++;
  for (PseudoChannel& pc : pseudo_channels_) {
    for (int bank = 0; bank < num_banks_; ++bank) {
      for (const int kind : {kRead, kWrite}) {
        update_column_candidate(pc, bank, kind);
        update_row_candidate(pc, bank, kind);
      }
    }
  }
}

ShortTick ChannelController::column_time(const PseudoChannel& pc, int bank, int kind) const {
  ShortTick ready = std::max({pc.column_ready[kind][bank], pc.any_column_ready[kind], column_bus_free_});
  if (kind == kRead && (pc.read_stack_banks & bit(bank)) == 0) ready = std::max(ready, pc.other_stacks_ready);
  return on_clock(ready);
}

ShortTick ChannelController::row_time(const PseudoChannel& pc, int bank) const {
  const ShortTick ready = std::max(pc.row_ready[bank], row_bus_free_);
  return (pc.open_banks & bit(bank)) != 0 ? std::max(ready, pc.any_precharge_ready)
                                          : on_clock(std::max(ready, pc.any_activate_ready));
}

void ChannelController::accept(ShortTick now) {
  while (next_arrival() <= epoch_ + now) {
    enqueue(backlog_.front(), now);
    backlog_.pop();
  }
}

void ChannelController::enqueue(const ChannelRequest& request, ShortTick now) {
  if (age_ == kMaxAge) renumber();
  const std::int32_t index = free_nodes_.back();
  free_nodes_.pop_back();
  Node& node = nodes_[index];
  const int kind = request.is_write ? kWrite : kRead;
  const int bank = request.bank;
  PseudoChannel& pc = pseudo_channels_[request.pseudo_channel];
  BankQueue& queue = pc.queue[kind][bank];
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
      if (pc.column_banks[kind] & bit(bank)) wake_column(pc, std::max(now, column_time(pc, bank, kind)));
    }
  } else if (queue.miss == kNone) {
    queue.miss = index;
    update_row_candidate(pc, bank, kind);
    if (pc.row_banks[kind] & bit(bank)) wake_row(pc, std::max(now, row_time(pc, bank)));
  }
}

void ChannelController::unlink(std::int32_t index) {
  const Node& node = nodes_[index];
  BankQueue& queue = pseudo_channels_[node.pseudo_channel].queue[node.kind][node.bank];
  (node.previous == kNone ? queue.head : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? queue.tail : nodes_[node.next].previous) = node.previous;
  --queued_[node.kind];
}

/// After the open row of a bank changed.
void ChannelController::rescan_queue(PseudoChannel& pc, int bank, int kind) {
  BankQueue& queue = pc.queue[kind][bank];
  const bool was_empty = queue.hit == kNone && queue.miss == kNone;
  if (was_empty && queue.head == kNone && (pc.opened_banks[kind] & bit(bank)) == 0) return;
  queue.hit = queue.miss = kNone;
  const std::int32_t open_row = pc.open_row[bank];
  for (std::int32_t i = queue.head; i != kNone; i = nodes_[i].next) {
    std::int32_t& oldest = nodes_[i].row == open_row ? queue.hit : queue.miss;
    if (oldest == kNone) oldest = i;
    if ((queue.hit != kNone || open_row == kNone) && queue.miss != kNone) break;
  }
  update_column_candidate(pc, bank, kind);
  update_row_candidate(pc, bank, kind);
}

void ChannelController::update_column_candidate(PseudoChannel& pc, int bank, int kind) {
  std::int32_t key = kNoKey;
  if (pc.opened_banks[kind] & bit(bank)) {
    key = nodes_[pc.opened_for[bank]].age << kAgeShift | bank;
  } else if (const std::int32_t hit = pc.queue[kind][bank].hit; hit != kNone && pc.refreshed_bank != bank) {
    key = kHitKey | nodes_[hit].age << kAgeShift | bank;
  }
  pc.column_key[kind][bank] = key;
  pc.column_banks[kind] = key == kNoKey ? pc.column_banks[kind] & ~bit(bank) : pc.column_banks[kind] | bit(bank);
}

void ChannelController::update_row_candidate(PseudoChannel& pc, int bank, int kind) {
  const BankQueue& queue = pc.queue[kind][bank];
  // A closed bank has no hits. An open one may be closed unless somebody's ACT is pending there or an older hit waits.
  const bool is_wanted = queue.miss != kNone && pc.opened_for[bank] == kNone && pc.refreshed_bank != bank &&
                         (queue.hit == kNone || nodes_[queue.hit].arrival > nodes_[queue.miss].arrival);
  pc.row_key[kind][bank] = is_wanted ? nodes_[queue.miss].age << kAgeShift | bank : kNoKey;
  pc.row_banks[kind] = is_wanted ? pc.row_banks[kind] | bit(bank) : pc.row_banks[kind] & ~bit(bank);
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

/// Requests whose row was opened for them.
BankScan ChannelController::scan_opened(const PseudoChannel& pc, int kind, ShortTick now) const {
  BankScan scan;
  for (std::uint64_t banks = pc.opened_banks[kind]; banks != 0; banks &= banks - 1) {
    const int bank = std::countr_zero(banks);
    const ShortTick ready = column_time(pc, bank, kind);
    if (ready <= now) {
      scan.oldest = std::min(scan.oldest, pc.column_key[kind][bank]);
    } else {
      scan.next = std::min(scan.next, ready);
    }
  }
  return scan;
}

/// Column commands of one kind, row hits included.
BankScan ChannelController::scan_columns(const PseudoChannel& pc, int kind, ShortTick now) const {
  std::uint64_t banks = pc.column_banks[kind];
  if (banks == 0) return {};
  // A gate of many banks is a lower bound for all of them.
  if (const ShortTick gate = pc.any_column_ready[kind]; gate > now) return {.oldest = kNoKey, .next = on_clock(gate)};
  ShortTick other_stacks = kNotSoon;
  if (kind == kRead && pc.other_stacks_ready > now && (banks & ~pc.read_stack_banks) != 0) {
    banks &= pc.read_stack_banks;
    other_stacks = pc.other_stacks_ready;
  }
  BankScan scan = scan_banks(banks, pc.column_key[kind], pc.column_ready[kind], now);
  scan.next = std::min(scan.next, other_stacks);
  if (scan.next != kNotSoon) scan.next = on_clock(scan.next);
  return scan;
}

void ChannelController::try_column(ShortTick now, CompletionCalendar& completions) {
  if (column_bus_free_ > now || (now & clock_mask_) != 0) {
    next_column_ = on_clock(std::max(now, column_bus_free_));
    return;
  }
  std::int32_t best = kNoKey;
  PseudoChannel* chosen = nullptr;
  int chosen_kind = mode_;
  next_column_ = kNotSoon;
  for (PseudoChannel& pc : pseudo_channels_) {
    if (pc.column_wake > now) {
      next_column_ = std::min(next_column_, pc.column_wake);
      continue;
    }
    BankScan scan = refresh_target_ == kNone ? scan_columns(pc, mode_, now) : scan_opened(pc, mode_, now);
    int kind = mode_;
    if (pc.opened_banks[1 - mode_] != 0) {
      const BankScan other = scan_opened(pc, 1 - mode_, now);
      if (other.oldest < scan.oldest) kind = 1 - mode_;
      scan = {.oldest = std::min(scan.oldest, other.oldest), .next = std::min(scan.next, other.next)};
    }
    pc.column_wake = scan.oldest == kNoKey ? scan.next : now;
    next_column_ = std::min(next_column_, pc.column_wake);
    if (scan.oldest < best) {
      best = scan.oldest;
      chosen = &pc;
      chosen_kind = kind;
    }
  }
  if (best == kNoKey) return;
  const int bank = best & (kMaxBanks - 1);
  issue_column(now, best < kHitKey ? chosen->opened_for[bank] : chosen->queue[chosen_kind][bank].hit, completions);
  // The data bus of the chosen pseudo channel is busy; its candidates of the other kind are opened ones.
  chosen->column_wake = kNotSoon;
  for (const int kind : {kRead, kWrite}) {
    if (chosen->column_banks[kind] != 0) {
      chosen->column_wake = std::min(chosen->column_wake, on_clock(chosen->any_column_ready[kind]));
    }
  }
  next_column_ = kNotSoon;
  for (const PseudoChannel& pc : pseudo_channels_) next_column_ = std::min(next_column_, pc.column_wake);
  next_column_ = std::max(next_column_, column_bus_free_);
}

void ChannelController::issue_column(ShortTick now, std::int32_t index, CompletionCalendar& completions) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  const int bank = node.bank;
  const int kind = node.kind;
  const int group_begin = bank & ~(banks_per_group_ - 1);
  column_bus_free_ = now + static_cast<ShortTick>(timings_.column_bus);
  if (timings_.one_command_bus) raise_to(row_bus_free_, column_bus_free_);
  const auto raise_group = [&](int of_kind, Tick tick) {
    for (int i = group_begin; i < group_begin + banks_per_group_; ++i) raise_to(pc.column_ready[of_kind][i], tick);
  };
  Tick precharge = now;
  if (kind == kRead) {
    raise_to(pc.any_column_ready[kRead], now + timings_.read_to_read);
    raise_group(kRead, now + timings_.read_to_read_same_group);
    // Only the last read counts: the one before it in another stack ID was at least as far away.
    pc.read_stack_banks = stack_mask_ << (bank & ~(banks_per_stack_ - 1));
    pc.other_stacks_ready = now + static_cast<ShortTick>(timings_.read_to_read_other_stack);
    raise_to(pc.any_column_ready[kWrite], now + timings_.read_to_write);
    precharge += timings_.read_to_pre;
    ++counters_.reads;
    counters_.read_latency += now + timings_.read_latency - node.arrival + 1;
  } else {
    raise_to(pc.any_column_ready[kWrite], now + timings_.write_to_write);
    raise_group(kWrite, now + timings_.write_to_write_same_group);
    raise_to(pc.any_column_ready[kRead], now + timings_.write_to_read);
    raise_group(kRead, now + timings_.write_to_read_same_group);
    precharge += timings_.write_to_pre;
    ++counters_.writes;
  }
  raise_to(pc.row_ready[bank], precharge);
  raise_to(pc.precharge_all_ready, precharge);
  completions.add(epoch_ + now + timings_.read_latency);
  if (!node.has_issued) ++counters_.row_hits;

  if (pc.opened_for[bank] == index) {
    pc.opened_for[bank] = kNone;
    pc.opened_banks[kind] &= ~bit(bank);
    for (const int waiting : {kRead, kWrite}) {
      if (pc.queue[waiting][bank].miss != kNone) update_row_candidate(pc, bank, waiting);
    }
    if (refresh_target_ != kNone || pc.refreshed_bank == bank) wake_row(pc, now);
  } else {
    BankQueue& queue = pc.queue[kind][bank];
    unlink(index);
    queue.hit = kNone;
    for (std::int32_t i = node.next; i != kNone; i = nodes_[i].next) {
      if (nodes_[i].row == node.row) {
        queue.hit = i;
        break;
      }
    }
    update_row_candidate(pc, bank, kind);
  }
  update_column_candidate(pc, bank, kind);
  if (pc.row_banks[mode_] & bit(bank)) wake_row(pc, std::max(now, row_time(pc, bank)));
  free_nodes_.push_back(index);
}

/// Row commands of the kind being served. ACT starts on a clock, PRE on any tick.
BankScan ChannelController::scan_rows(const PseudoChannel& pc, ShortTick now) const {
  std::uint64_t banks = pc.row_banks[mode_];
  ShortTick gates = kNotSoon;
  if (pc.any_precharge_ready > now && (banks & pc.open_banks) != 0) {
    banks &= ~pc.open_banks;
    gates = pc.any_precharge_ready;
  }
  if (const ShortTick gate = on_clock(std::max(now, pc.any_activate_ready)); gate > now) {
    if ((banks & ~pc.open_banks) != 0) gates = std::min(gates, gate);
    banks &= pc.open_banks;
  }
  BankScan scan = scan_banks(banks, pc.row_key[mode_], pc.row_ready, now);
  scan.next = std::min(scan.next, gates);
  return scan;
}

void ChannelController::try_row(ShortTick now) {
  if (row_bus_free_ > now) {
    next_row_ = row_bus_free_;
    return;
  }
  if (has_bank_refresh_ && try_bank_refresh(now)) return;
  std::int32_t best = kNoKey;
  PseudoChannel* chosen = nullptr;
  next_row_ = next_bank_refresh_;
  for (PseudoChannel& pc : pseudo_channels_) {
    if (pc.row_wake <= now) {
      const BankScan scan = scan_rows(pc, now);
      pc.row_wake = scan.oldest == kNoKey ? scan.next : now;
      if (scan.oldest < best) {
        best = scan.oldest;
        chosen = &pc;
      }
    }
    next_row_ = std::min(next_row_, pc.row_wake);
  }
  if (best == kNoKey) return;
  const int bank = best & (kMaxBanks - 1);
  const std::int32_t index = chosen->queue[mode_][bank].miss;
  if (chosen->open_banks & bit(bank)) {
    issue_precharge(now, index);
  } else {
    issue_activate(now, index);
  }
  // What is left waits at least for the gate of its kind.
  const std::uint64_t left = chosen->row_banks[mode_];
  chosen->row_wake = std::min((left & chosen->open_banks) != 0 ? chosen->any_precharge_ready : kNotSoon,
                              (left & ~chosen->open_banks) != 0 ? on_clock(chosen->any_activate_ready) : kNotSoon);
  next_row_ = next_bank_refresh_;
  for (const PseudoChannel& pc : pseudo_channels_) next_row_ = std::min(next_row_, pc.row_wake);
  next_row_ = std::max(next_row_, row_bus_free_);
}

void ChannelController::hold_row_bus(ShortTick now, Tick ticks) {
  row_bus_free_ = now + static_cast<ShortTick>(ticks);
  if (timings_.one_command_bus) raise_to(column_bus_free_, row_bus_free_);
}

void ChannelController::issue_activate(ShortTick now, std::int32_t index) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  const int bank = node.bank;
  hold_row_bus(now, timings_.activate_bus);
  raise_to(pc.column_ready[kRead][bank], now + timings_.act_to_read);
  raise_to(pc.column_ready[kWrite][bank], now + timings_.act_to_write);
  pc.open_row[bank] = node.row;
  pc.open_banks |= bit(bank);
  pc.row_ready[bank] = now + static_cast<ShortTick>(timings_.act_to_pre);
  raise_to(pc.precharge_all_ready, now + timings_.act_to_pre);
  raise_to(pc.activate_ready[bank], now + timings_.act_to_act_same_bank);
  const Tick group_ready = now + timings_.act_to_act_same_group;
  raise_to(pc.group_activate_ready[bank >> group_shift_], group_ready);
  for (int i = bank & ~(banks_per_group_ - 1), end = i + banks_per_group_; i < end; ++i) {
    if ((pc.open_banks & bit(i)) == 0) raise_to(pc.row_ready[i], group_ready);
  }
  pc.last_activates[pc.activate_index] = now;
  pc.activate_index = (pc.activate_index + 1) & 3;
  raise_to(pc.any_activate_ready,
           std::max(now + timings_.act_to_act, pc.last_activates[pc.activate_index] + timings_.four_acts));
  raise_to(pc.refresh_ready, now + timings_.act_to_refresh);
  ++counters_.activates;

  node.has_issued = true;
  unlink(index);
  pc.opened_for[bank] = index;
  pc.opened_banks[node.kind] |= bit(bank);
  rescan_queue(pc, bank, kRead);
  rescan_queue(pc, bank, kWrite);
  wake_column(pc, std::max(now + 1, column_time(pc, bank, node.kind)));
}

/// A bank was closed at `now`: what its next ACT waits for.
void ChannelController::close_bank(PseudoChannel& pc, int bank, ShortTick now) {
  pc.open_row[bank] = kNone;
  pc.open_banks &= ~bit(bank);
  pc.row_ready[bank] = std::max({pc.activate_ready[bank], pc.group_activate_ready[bank >> group_shift_],
                                 now + static_cast<ShortTick>(timings_.pre_to_act)});
  rescan_queue(pc, bank, kRead);
  rescan_queue(pc, bank, kWrite);
}

void ChannelController::issue_precharge(ShortTick now, std::int32_t index) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  hold_row_bus(now, timings_.precharge_bus);
  raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
  raise_to(pc.precharge_all_ready, now + timings_.pre_to_pre);
  raise_to(pc.refresh_ready, now + timings_.pre_to_refresh);
  node.has_issued = true;
  close_bank(pc, node.bank, now);
}

}  // namespace kvtide::gpu
