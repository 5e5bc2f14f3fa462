#include "gpu/block_dispatch.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

namespace kvtide::gpu {
namespace {

/// Slots that become free at the same moment.
struct Level {
  double free_at = 0;
  std::int64_t num_slots = 0;
};

/// Keeps `levels` ascending by time, equal times joined.
void insert_level(std::deque<Level>& levels, const Level& added) {
  const auto place = std::ranges::lower_bound(levels, added.free_at, {}, &Level::free_at);
  if (place != levels.end() && place->free_at == added.free_at) {
    place->num_slots += added.num_slots;
  } else {
    levels.insert(place, added);
  }
}

}  // namespace

double dispatch_in_waves(std::vector<BlockGroup> groups, std::int64_t num_slots) {
  std::ranges::stable_sort(groups, std::ranges::greater{}, &BlockGroup::duration);
  std::deque<Level> levels{{0, num_slots}};
  double last_end = 0;
  for (const BlockGroup& group : groups) {
    std::int64_t left = group.count;
    if (group.duration <= 0) continue;
    while (left > 0) {
      // Slots that are free within one block of each other take one block each a round, until the next slot comes free:
      // whole rounds at once.
      std::size_t num_levels = 1;
      std::int64_t slots = levels.front().num_slots;
      while (num_levels < levels.size() && levels[num_levels].free_at - levels.front().free_at <= group.duration) {
        slots += levels[num_levels++].num_slots;
      }
      const std::int64_t whole_rounds = left / slots;
      auto rounds = static_cast<double>(whole_rounds);
      if (num_levels < levels.size()) {
        const double gap = levels[num_levels].free_at - levels[num_levels - 1].free_at;
        rounds = std::min(rounds, std::floor(gap / group.duration));
      }
      if (rounds >= 1) {
        for (std::size_t index = 0; index < num_levels; ++index) levels[index].free_at += rounds * group.duration;
        left -= static_cast<std::int64_t>(rounds) * slots;
      } else {
        Level& earliest = levels.front();
        const std::int64_t taken = std::min(earliest.num_slots, left);
        const Level busy{earliest.free_at + group.duration, taken};
        earliest.num_slots -= taken;
        if (earliest.num_slots == 0) levels.pop_front();
        insert_level(levels, busy);
        left -= taken;
      }
    }
    last_end = levels.back().free_at;
  }
  return last_end;
}

}  // namespace kvtide::gpu
