#include "gpu/block_dispatch.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

namespace kvtide::gpu {
namespace {

/// Keeps `levels` ascending by time, equal times joined.
void insert_level(std::deque<SlotsDone>& levels, const SlotsDone& added) {
  const auto place = std::ranges::lower_bound(levels, added.at, {}, &SlotsDone::at);
  if (place != levels.end() && place->at == added.at) {
    place->num_slots += added.num_slots;
  } else {
    levels.insert(place, added);
  }
}

}  // namespace

std::vector<SlotsDone> dispatch_blocks(std::vector<BlockGroup> groups, std::int64_t num_slots) {
  std::ranges::stable_sort(groups, std::ranges::greater{}, &BlockGroup::duration);
  std::deque<SlotsDone> levels{{0, num_slots}};
  for (const BlockGroup& group : groups) {
    std::int64_t left = group.count;
    if (group.duration <= 0) continue;
    while (left > 0) {
      // Slots that are free within one block of each other take one block each a round, until the next slot comes free:
      // whole rounds at once.
      std::size_t num_levels = 1;
      std::int64_t slots = levels.front().num_slots;
      while (num_levels < levels.size() && levels[num_levels].at - levels.front().at <= group.duration) {
        slots += levels[num_levels++].num_slots;
      }
      const std::int64_t whole_rounds = left / slots;
      auto rounds = static_cast<double>(whole_rounds);
      if (num_levels < levels.size()) {
        const double gap = levels[num_levels].at - levels[num_levels - 1].at;
        rounds = std::min(rounds, std::floor(gap / group.duration));
      }
      if (rounds >= 1) {
        for (std::size_t index = 0; index < num_levels; ++index) levels[index].at += rounds * group.duration;
        left -= static_cast<std::int64_t>(rounds) * slots;
      } else {
        SlotsDone& earliest = levels.front();
        const std::int64_t taken = std::min(earliest.num_slots, left);
        const SlotsDone busy{earliest.at + group.duration, taken};
        earliest.num_slots -= taken;
        if (earliest.num_slots == 0) levels.pop_front();
        insert_level(levels, busy);
        left -= taken;
      }
    }
  }
  return {levels.begin(), levels.end()};
}

double dispatch_in_waves(std::vector<BlockGroup> groups, std::int64_t num_slots) {
  return dispatch_blocks(std::move(groups), num_slots).back().at;
}

double time_on_shared_memory(const std::vector<SlotsDone>& done, double memory_time, double sharpness) {
  double slot_time = 0;
  std::int64_t busy = 0;
  for (const SlotsDone& level : done) {
    slot_time += level.at * static_cast<double>(level.num_slots);
    busy += level.num_slots;
  }
  if (slot_time <= 0) return memory_time;
  double total = 0, start = 0;
  for (const SlotsDone& level : done) {
    const double asked = static_cast<double>(busy) * memory_time / slot_time;
    // The larger of both factored out: asked^p would overflow for a memory that is far too slow.
    const double larger = std::max(asked, 1.0);
    total +=
        (level.at - start) * larger * std::pow(1 + std::pow(std::min(asked, 1.0) / larger, sharpness), 1 / sharpness);
    start = level.at;
    busy -= level.num_slots;
  }
  return total;
}

}  // namespace kvtide::gpu
