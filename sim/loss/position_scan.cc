#include "loss/position_scan.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "loss/span_statistics.h"

namespace kvtide::loss {

PositionScan scan_positions(std::span<const double> loss, std::int64_t span) {
  if (span < 1) throw InputError("loss.span: expected a number of tokens from 1, got " + std::to_string(span));
  PositionScan scan;
  const auto positions = static_cast<std::int64_t>(loss.size());
  // Sliding maximum of the loss: candidates in falling order, so the scan is linear in the positions for any span.
  std::deque<std::int64_t> candidates;
  for (std::int64_t j = 0; j < positions; ++j) {
    const double value = loss[static_cast<std::size_t>(j)];
    while (!candidates.empty() && loss[static_cast<std::size_t>(candidates.back())] <= value) candidates.pop_back();
    candidates.push_back(j);
    const std::int64_t first = j - span + 1;
    if (candidates.front() < first) candidates.pop_front();
    if (first < 0) continue;
    const double success = 1.0 - std::clamp(loss[static_cast<std::size_t>(candidates.front())], 0.0, 1.0);
    scan.position.push_back(first);
    scan.success.push_back(success);
    scan.margin.push_back(success - 0.5);
  }
  scan.stability = position_stability(scan.success, 1);
  return scan;
}

}  // namespace kvtide::loss
