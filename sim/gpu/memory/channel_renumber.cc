// The part of ChannelController that keeps its running numbers small: ticks and ages are 32 bits wide.

#include <algorithm>

#include "gpu/memory/channel_controller.h"

namespace kvtide::gpu {

/// Makes `tick` the zero of all short ticks (rounded to a clock). What lies in the past allows as much as zero does.
void ChannelController::move_epoch(Tick tick) {
  const Tick shift = (tick - epoch_) & ~static_cast<Tick>(clock_mask_);
  const auto move = [shift](ShortTick& time) {
    if (time != kNotSoon) time = static_cast<ShortTick>(std::max<Tick>(time - shift, 0));
  };
  const auto move_past = [shift](ShortTick& time) {
    time = static_cast<ShortTick>(std::max<Tick>(time - shift, -(Tick{1} << 30)));
  };
  for (PseudoChannel& pc : pseudo_channels_) {
    for (PerBank<ShortTick>* gates :
         {&pc.column_gate[kRead], &pc.column_gate[kWrite], &pc.row_gate, &pc.group_activate_ready}) {
      for (ShortTick& gate : *gates) move(gate);
    }
    for (Bank& bank : pc.banks) move(bank.activate_ready);
    for (ShortTick* gate :
         {&pc.any_column_ready[kRead], &pc.any_column_ready[kWrite], &pc.any_activate_ready, &pc.any_precharge_ready,
          &pc.refresh_ready, &pc.refresh_gate, &pc.other_stacks_ready, &pc.column_wake, &pc.row_wake}) {
      move(*gate);
    }
    for (ShortTick& activate : pc.last_activates) move_past(activate);
  }
  for (Node& node : nodes_) move_past(node.arrival);
  for (ShortTick* time :
       {&column_bus_free_, &row_bus_free_, &next_column_, &next_row_, &next_refresh_, &next_bank_refresh_}) {
    move(*time);
  }
  epoch_ += shift;
}

/// Counts the ages of the waiting requests from zero again, in the same order.
void ChannelController::renumber_ages() {
  std::vector<std::int32_t> waiting;
  for (const PseudoChannel& pc : pseudo_channels_) {
    for (int bank = 0; bank < num_banks_; ++bank) {
      const Bank& state = pc.banks[bank];
      if (state.opened_for != kNone) waiting.push_back(state.opened_for);
      for (const BankQueue& queue : state.queue) {
        for (std::int32_t i = queue.head; i != kNone; i = nodes_[i].next) waiting.push_back(i);
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

}  // namespace kvtide::gpu
