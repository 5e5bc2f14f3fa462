#include "kv/position_coding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvtide::kv {

std::string_view to_string(PositionCoding coding) {
  switch (coding) {
    case PositionCoding::original:
      return "original";
    case PositionCoding::contiguous:
      return "contiguous";
    case PositionCoding::smooth:
      return "smooth";
  }
  return {};
}

std::vector<double> position_turns(PositionCoding coding, const std::vector<double>& centre,
                                   const std::vector<std::uint8_t>& is_free, std::int64_t num_positions,
                                   std::int64_t width) {
  std::vector<double> turns(centre.size(), 0.0);
  if (coding == PositionCoding::contiguous) {
    std::vector<std::size_t> order(centre.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t entry) { return centre[entry]; });
    const std::int64_t first = num_positions - static_cast<std::int64_t>(centre.size());
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      turns[order[rank]] = static_cast<double>(first + static_cast<std::int64_t>(rank)) - centre[order[rank]];
    }
  } else if (coding == PositionCoding::smooth) {
    const auto group = static_cast<double>(width);
    for (std::size_t entry = 0; entry < centre.size(); ++entry) {
      if (is_free[entry] == 0) continue;
      turns[entry] = std::floor(centre[entry] / group) * group + (group - 1) / 2 - centre[entry];
    }
  }
  return turns;
}

}  // namespace kvtide::kv
