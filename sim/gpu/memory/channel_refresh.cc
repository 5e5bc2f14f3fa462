// The refresh part of ChannelController.

#include <algorithm>

#include "gpu/memory/channel_controller.h"

namespace kvtide::gpu {

void ChannelController::close_all(PseudoChannel& pc, ShortTick now) {
  hold_row_bus(now, timings_.precharge_bus);
  raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
  raise_to(pc.refresh_ready, now + timings_.pre_to_refresh);
  for (int bank = 0; bank < num_banks_; ++bank) {
    if (pc.open_banks & bit(bank)) {
      close_bank(pc, bank, now);
    } else {
      raise_to(pc.row_gate[bank], on_clock(now + static_cast<ShortTick>(timings_.pre_to_act)));
    }
  }
}

void ChannelController::try_refresh(ShortTick now) {
  PseudoChannel& pc = pseudo_channels_[refresh_target_];
  if (pc.open_banks != 0) {
    if ((pc.opened_banks[kRead] | pc.opened_banks[kWrite]) != 0) {
      next_row_ = kNotSoon;  // their column commands still go out; issue_column wakes us
      return;
    }
    ShortTick ready = std::max(pc.any_precharge_ready, row_bus_free_);
    for (int bank = 0; bank < num_banks_; ++bank) {
      if (pc.open_banks & bit(bank)) ready = std::max(ready, pc.row_gate[bank]);
    }
    if (ready > now) {
      next_row_ = ready;
      return;
    }
    close_all(pc, now);
  }
  const ShortTick ready = on_clock(std::max(pc.refresh_ready, row_bus_free_));
  if (ready > now) {
    next_row_ = ready;
    return;
  }
  hold_row_bus(now, timings_.precharge_bus);
  for (int bank = 0; bank < num_banks_; ++bank)
    raise_to(pc.row_gate[bank], on_clock(now + static_cast<ShortTick>(timings_.refresh_to_act)));
  ++counters_.refreshes;
  next_row_ = now + 1;
  if (++refresh_target_ == num_pseudo_channels_) {
    refresh_target_ = kNone;
    wake_all(now + 1);
  }
}

/// The next bank of every pseudo channel takes no new commands until it is refreshed. A pseudo channel whose last one
/// still waits skips this turn: its bank is due again an interval later.
void ChannelController::start_bank_refresh(ShortTick now) {
  const int bank = next_refreshed_bank_;
  next_refreshed_bank_ = (next_refreshed_bank_ + 1) % num_banks_;
  for (PseudoChannel& pc : pseudo_channels_) {
    if (pc.refreshed_bank != kNone) continue;
    pc.refreshed_bank = bank;
    for (const int kind : {kRead, kWrite}) {
      update_column_candidate(pc, bank, kind);
      update_row_candidate(pc, bank, kind);
    }
  }
  has_bank_refresh_ = true;
  next_bank_refresh_ = now;
  next_row_ = std::min(next_row_, now);
}

/// Closes or refreshes a bank that is due. @return whether the row bus was used
bool ChannelController::try_bank_refresh(ShortTick now) {
  next_bank_refresh_ = kNotSoon;
  for (PseudoChannel& pc : pseudo_channels_) {
    const int bank = pc.refreshed_bank;
    if (bank == kNone || pc.banks[bank].opened_for != kNone)
      continue;  // its column command still goes out, then wakes us
    const bool is_open = (pc.open_banks & bit(bank)) != 0;
    // Like an ACT, REF of a bank waits for the row cycle and the precharge of that bank.
    const ShortTick ready =
        is_open ? row_time(pc, bank) : on_clock(std::max({pc.row_gate[bank], pc.refresh_gate, row_bus_free_}));
    if (ready > now) {
      next_bank_refresh_ = std::min(next_bank_refresh_, ready);
      continue;
    }
    hold_row_bus(now, timings_.precharge_bus);
    if (is_open) {
      raise_to(pc.any_precharge_ready, now + timings_.pre_to_pre);
      close_bank(pc, bank, now);
    } else {
      raise_to(pc.row_gate[bank], on_clock(now + static_cast<ShortTick>(timings_.bank_refresh_to_act)));
      pc.refresh_gate = now + static_cast<ShortTick>(timings_.bank_refresh_to_other);
      raise_to(pc.any_activate_ready, now + timings_.bank_refresh_to_other);
      ++counters_.refreshes;
      pc.refreshed_bank = kNone;
      for (const int kind : {kRead, kWrite}) update_row_candidate(pc, bank, kind);
      if (pc.row_key[mode_][bank] != kNoKey) wake_row(pc, row_time(pc, bank));
    }
    next_bank_refresh_ = now + 1;
    next_row_ = now + 1;
    return true;
  }
  has_bank_refresh_ =
      next_bank_refresh_ != kNotSoon ||
      std::ranges::any_of(pseudo_channels_, [](const PseudoChannel& pc) { return pc.refreshed_bank != kNone; });
  return false;
}

}  // namespace kvtide::gpu
