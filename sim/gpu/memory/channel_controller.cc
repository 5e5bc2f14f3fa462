#include "gpu/memory/channel_controller.h"

#include <algorithm>
#include <bit>

namespace kvtide::gpu {
namespace {

constexpr int kRead = 0, kWrite = 1;

constexpr std::uint64_t bit(int index) {
  return std::uint64_t{1} << index;
}

void raise_to(Tick& ready, Tick tick) {
  ready = std::max(ready, tick);
}

}  // namespace

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
      group_shift_(std::countr_zero(static_cast<std::uint64_t>(geometry.num_banks))),
      stack_shift_(std::countr_zero(static_cast<std::uint64_t>(geometry.num_bank_groups))),
      num_stack_ids_(static_cast<int>(geometry.num_stack_ids)),
      clock_mask_(timings.clock - 1),
      pseudo_channels_(static_cast<std::size_t>(num_pseudo_channels_)) {
  for (PseudoChannel& pc : pseudo_channels_) {
    pc.open_row.fill(kNone);
    pc.opened_for.fill(kNone);
    pc.last_activates.fill(-timings.four_acts);
  }
  // Two queues, and one opened request per bank that has left its queue.
  const auto num_nodes = static_cast<std::size_t>(2 * settings.queue_size + num_pseudo_channels_ * num_banks_);
  nodes_.resize(num_nodes);
  for (std::size_t i = num_nodes; i-- > 0;) free_nodes_.push_back(static_cast<std::int32_t>(i));
  if (settings.has_refresh && timings.refresh_interval > 0) next_refresh_ = timings.refresh_interval;
}

Tick ChannelController::next_event() const {
  Tick next = std::min({next_column_, next_row_, next_refresh_});
  if (!backlog_.empty() && queued_[backlog_.front().is_write] < settings_.queue_size) {
    next = std::min(next, backlog_.front().arrival);
  }
  return next;
}

void ChannelController::run_until(Tick end, CompletionCalendar& completions) {
  for (Tick now = next_event(); now < end; now = next_event()) {
    accept(now);
    if (next_refresh_ <= now) {
      next_refresh_ += timings_.refresh_interval;
      refresh_target_ = 0;
      next_row_ = now;
    }
    if (next_column_ <= now) try_column(now, completions);
    if (next_row_ <= now) {
      if (refresh_target_ != kNone) {
        try_refresh(now);
      } else {
        try_row(now);
      }
    }
    accept(now + 1);  // slots freed in this tick are filled before the next
    if (refresh_target_ == kNone) {
      const int mode = mode_;
      update_mode();
      if (mode != mode_) next_column_ = next_row_ = now + 1;
    }
  }
}

Tick ChannelController::column_time(const PseudoChannel& pc, int bank, int kind) const {
  const int group = bank >> group_shift_;
  Tick ready = std::max(
      {pc.column_ready[kind][bank], pc.group_column_ready[kind][group], pc.any_column_ready[kind], column_bus_free_});
  if (kind == kRead) ready = std::max(ready, pc.stack_read_ready[group >> stack_shift_]);
  return on_clock(ready);
}

Tick ChannelController::row_time(const PseudoChannel& pc, int bank, bool is_open) const {
  if (is_open) {
    return std::max({pc.precharge_ready[bank], pc.any_precharge_ready, row_bus_free_});
  }
  return on_clock(std::max(
      {pc.activate_ready[bank], pc.group_activate_ready[bank >> group_shift_], pc.any_activate_ready, row_bus_free_}));
}

void ChannelController::accept(Tick now) {
  while (!backlog_.empty() && backlog_.front().arrival <= now &&
         queued_[backlog_.front().is_write] < settings_.queue_size) {
    enqueue(backlog_.front(), now);
    backlog_.pop();
  }
}

void ChannelController::enqueue(const ChannelRequest& request, Tick now) {
  const std::int32_t index = free_nodes_.back();
  free_nodes_.pop_back();
  Node& node = nodes_[index];
  const int kind = request.is_write ? kWrite : kRead;
  const int bank = request.bank;
  PseudoChannel& pc = pseudo_channels_[request.pseudo_channel];
  BankQueue& queue = pc.queue[kind][bank];
  node = {.arrival = now,
          .serial = serial_++,
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
      pc.hit_banks[kind] |= bit(bank);
      pc.hit_serial[kind][bank] = node.serial;
      next_column_ = std::min(next_column_, std::max(now, column_time(pc, bank, kind)));
    }
  } else if (queue.miss == kNone) {
    queue.miss = index;
    update_row_candidate(pc, bank, kind);
    if (pc.row_banks[kind] & bit(bank))
      next_row_ = std::min(next_row_, std::max(now, row_time(pc, bank, (pc.open_banks & bit(bank)) != 0)));
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
  queue.hit = queue.miss = kNone;
  for (std::int32_t i = queue.head; i != kNone && (queue.hit == kNone || queue.miss == kNone); i = nodes_[i].next) {
    std::int32_t& oldest = nodes_[i].row == pc.open_row[bank] ? queue.hit : queue.miss;
    if (oldest == kNone) oldest = i;
  }
  if (queue.hit != kNone) {
    pc.hit_banks[kind] |= bit(bank);
    pc.hit_serial[kind][bank] = nodes_[queue.hit].serial;
  } else {
    pc.hit_banks[kind] &= ~bit(bank);
  }
  update_row_candidate(pc, bank, kind);
}

void ChannelController::update_row_candidate(PseudoChannel& pc, int bank, int kind) {
  const BankQueue& queue = pc.queue[kind][bank];
  // A closed bank has no hits. An open one may be closed unless somebody's ACT is pending there or an older hit waits.
  const bool is_wanted = queue.miss != kNone && !(pc.opened_banks & bit(bank)) &&
                         (queue.hit == kNone || nodes_[queue.hit].arrival > nodes_[queue.miss].arrival);
  if (is_wanted) {
    pc.row_banks[kind] |= bit(bank);
    pc.row_serial[kind][bank] = nodes_[queue.miss].serial;
  } else {
    pc.row_banks[kind] &= ~bit(bank);
  }
}

void ChannelController::update_mode() {
  const auto size = static_cast<double>(settings_.queue_size);
  const auto writes = static_cast<double>(queued_[kWrite]);
  if (mode_ == kRead) {
    if (writes > settings_.write_high * size || queued_[kRead] == 0) mode_ = kWrite;
  } else if (writes < settings_.write_low * size && queued_[kRead] != 0) {
    mode_ = kRead;
  }
}

void ChannelController::try_column(Tick now, CompletionCalendar& completions) {
  Choice choice;
  for (int p = 0; p < num_pseudo_channels_; ++p) {
    const PseudoChannel& pc = pseudo_channels_[p];
    for (std::uint64_t banks = pc.opened_banks; banks != 0; banks &= banks - 1) {
      const int bank = std::countr_zero(banks);
      choice.offer(pc.opened_serial[bank], p, bank, column_time(pc, bank, nodes_[pc.opened_for[bank]].kind), now);
    }
  }
  const bool is_opened = choice.is_found();
  if (!is_opened && refresh_target_ == kNone) {
    const int mode = mode_;
    update_mode();
    if (mode != mode_) next_row_ = std::min(next_row_, now);
    for (int p = 0; p < num_pseudo_channels_; ++p) {
      const PseudoChannel& pc = pseudo_channels_[p];
      std::uint64_t banks = pc.hit_banks[mode_];
      if (banks == 0) continue;
      if (const Tick gate = on_clock(pc.any_column_ready[mode_]); gate > now) {
        choice.next = std::min(choice.next, gate);  // a lower bound for all of its banks
        continue;
      }
      for (; banks != 0; banks &= banks - 1) {
        const int bank = std::countr_zero(banks);
        choice.offer(pc.hit_serial[mode_][bank], p, bank, column_time(pc, bank, mode_), now);
      }
    }
  }
  if (!choice.is_found()) {
    next_column_ = choice.next;
    return;
  }
  const PseudoChannel& pc = pseudo_channels_[choice.pseudo_channel()];
  issue_column(now, is_opened ? pc.opened_for[choice.bank()] : pc.queue[mode_][choice.bank()].hit, completions);
  next_column_ = now + timings_.column_bus;
}

void ChannelController::issue_column(Tick now, std::int32_t index, CompletionCalendar& completions) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  const int bank = node.bank;
  const int group = bank >> group_shift_;
  const int kind = node.kind;
  column_bus_free_ = now + timings_.column_bus;
  if (timings_.one_command_bus) raise_to(row_bus_free_, column_bus_free_);
  Tick precharge = now;
  if (kind == kRead) {
    raise_to(pc.any_column_ready[kRead], now + timings_.read_to_read);
    raise_to(pc.group_column_ready[kRead][group], now + timings_.read_to_read_same_group);
    const int stack = group >> stack_shift_;
    for (int other = 0; other < num_stack_ids_; ++other) {
      if (other != stack) raise_to(pc.stack_read_ready[other], now + timings_.read_to_read_other_stack);
    }
    raise_to(pc.any_column_ready[kWrite], now + timings_.read_to_write);
    precharge += timings_.read_to_pre;
    ++counters_.reads;
    counters_.read_latency += now + timings_.read_latency - node.arrival + 1;
  } else {
    raise_to(pc.any_column_ready[kWrite], now + timings_.write_to_write);
    raise_to(pc.group_column_ready[kWrite][group], now + timings_.write_to_write_same_group);
    raise_to(pc.any_column_ready[kRead], now + timings_.write_to_read);
    raise_to(pc.group_column_ready[kRead][group], now + timings_.write_to_read_same_group);
    precharge += timings_.write_to_pre;
    ++counters_.writes;
  }
  raise_to(pc.precharge_ready[bank], precharge);
  raise_to(pc.precharge_all_ready, precharge);
  completions.add(now + timings_.read_latency);
  if (!node.has_issued) ++counters_.row_hits;

  if (pc.opened_for[bank] == index) {
    pc.opened_for[bank] = kNone;
    pc.opened_banks &= ~bit(bank);
    update_row_candidate(pc, bank, kRead);
    update_row_candidate(pc, bank, kWrite);
    if (refresh_target_ != kNone) next_row_ = std::min(next_row_, now);
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
    if (queue.hit == kNone) {
      pc.hit_banks[kind] &= ~bit(bank);
    } else {
      pc.hit_serial[kind][bank] = nodes_[queue.hit].serial;
    }
    update_row_candidate(pc, bank, kind);
  }
  if (pc.row_banks[mode_] & bit(bank))
    next_row_ = std::min(next_row_, std::max(now, row_time(pc, bank, (pc.open_banks & bit(bank)) != 0)));
  free_nodes_.push_back(index);
}

void ChannelController::try_row(Tick now) {
  const int mode = mode_;
  update_mode();
  if (mode != mode_) next_column_ = std::min(next_column_, now + 1);
  Choice choice;
  for (int p = 0; p < num_pseudo_channels_; ++p) {
    const PseudoChannel& pc = pseudo_channels_[p];
    const std::uint64_t candidates = pc.row_banks[mode_];
    for (const bool is_open : {false, true}) {
      std::uint64_t banks = candidates & (is_open ? pc.open_banks : ~pc.open_banks);
      if (banks == 0) continue;
      if (const Tick gate = is_open ? pc.any_precharge_ready : on_clock(pc.any_activate_ready); gate > now) {
        choice.next = std::min(choice.next, gate);  // a lower bound for all of these banks
        continue;
      }
      for (; banks != 0; banks &= banks - 1) {
        const int bank = std::countr_zero(banks);
        choice.offer(pc.row_serial[mode_][bank], p, bank, row_time(pc, bank, is_open), now);
      }
    }
  }
  if (!choice.is_found()) {
    next_row_ = choice.next;
    return;
  }
  const PseudoChannel& pc = pseudo_channels_[choice.pseudo_channel()];
  const std::int32_t index = pc.queue[mode_][choice.bank()].miss;
  if (pc.open_banks & bit(choice.bank())) {
    issue_precharge(now, index);
  } else {
    issue_activate(now, index);
  }
  next_row_ = row_bus_free_;
}

void ChannelController::hold_row_bus(Tick now, Tick ticks) {
  row_bus_free_ = now + ticks;
  if (timings_.one_command_bus) raise_to(column_bus_free_, row_bus_free_);
}

void ChannelController::issue_activate(Tick now, std::int32_t index) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  const int bank = node.bank;
  hold_row_bus(now, timings_.activate_bus);
  raise_to(pc.column_ready[kRead][bank], now + timings_.act_to_read);
  raise_to(pc.column_ready[kWrite][bank], now + timings_.act_to_write);
  raise_to(pc.precharge_ready[bank], now + timings_.act_to_pre);
  raise_to(pc.precharge_all_ready, now + timings_.act_to_pre);
  raise_to(pc.activate_ready[bank], now + timings_.act_to_act_same_bank);
  raise_to(pc.group_activate_ready[bank >> group_shift_], now + timings_.act_to_act_same_group);
  pc.last_activates[pc.activate_index] = now;
  pc.activate_index = (pc.activate_index + 1) & 3;
  raise_to(pc.any_activate_ready,
           std::max(now + timings_.act_to_act, pc.last_activates[pc.activate_index] + timings_.four_acts));
  raise_to(pc.refresh_ready, now + timings_.act_to_refresh);
  ++counters_.activates;

  node.has_issued = true;
  unlink(index);
  pc.open_row[bank] = node.row;
  pc.open_banks |= bit(bank);
  pc.opened_for[bank] = index;
  pc.opened_serial[bank] = node.serial;
  pc.opened_banks |= bit(bank);
  rescan_queue(pc, bank, kRead);
  rescan_queue(pc, bank, kWrite);
  next_column_ = std::min(next_column_, std::max(now + 1, column_time(pc, bank, node.kind)));
}

void ChannelController::issue_precharge(Tick now, std::int32_t index) {
  Node& node = nodes_[index];
  PseudoChannel& pc = pseudo_channels_[node.pseudo_channel];
  const int bank = node.bank;
  hold_row_bus(now, timings_.precharge_bus);
  raise_to(pc.activate_ready[bank], now + timings_.pre_to_act);
  raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
  raise_to(pc.precharge_all_ready, now + timings_.pre_to_pre);
  raise_to(pc.refresh_ready, now + timings_.pre_to_refresh);
  node.has_issued = true;
  pc.open_row[bank] = kNone;
  pc.open_banks &= ~bit(bank);
  rescan_queue(pc, bank, kRead);
  rescan_queue(pc, bank, kWrite);
}

void ChannelController::close_all(PseudoChannel& pc, Tick now) {
  hold_row_bus(now, timings_.precharge_bus);
  for (int bank = 0; bank < num_banks_; ++bank) {
    raise_to(pc.activate_ready[bank], now + timings_.pre_to_act);
    pc.open_row[bank] = kNone;
  }
  pc.open_banks = 0;
  raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
  raise_to(pc.refresh_ready, now + timings_.pre_to_refresh);
  for (int bank = 0; bank < num_banks_; ++bank) {
    rescan_queue(pc, bank, kRead);
    rescan_queue(pc, bank, kWrite);
  }
}

void ChannelController::try_refresh(Tick now) {
  PseudoChannel& pc = pseudo_channels_[refresh_target_];
  if (pc.open_banks != 0) {
    if (pc.opened_banks != 0) {  // their column commands still go out; issue_column wakes us
      next_row_ = kNever;
      return;
    }
    const Tick ready = std::max(pc.precharge_all_ready, row_bus_free_);
    if (ready > now) {
      next_row_ = ready;
      return;
    }
    close_all(pc, now);
  }
  const Tick ready = on_clock(std::max(pc.refresh_ready, row_bus_free_));
  if (ready > now) {
    next_row_ = ready;
    return;
  }
  hold_row_bus(now, timings_.precharge_bus);
  for (int bank = 0; bank < num_banks_; ++bank) raise_to(pc.activate_ready[bank], now + timings_.refresh_to_act);
  ++counters_.refreshes;
  next_row_ = now + 1;
  if (++refresh_target_ == num_pseudo_channels_) {
    refresh_target_ = kNone;
    next_column_ = now + 1;
  }
}

}  // namespace kvtide::gpu
