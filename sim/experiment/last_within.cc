#include "experiment/last_within.h"

#include <algorithm>

namespace kvtide::experiment {

std::int64_t last_within(Bytes limit, std::int64_t most, Bytes most_bytes,
                         const std::function<Bytes(std::int64_t)>& bytes) {
  std::int64_t low = 0, high = most;  // `low` is within the limit, `high` is not
  Bytes low_bytes = 0, high_bytes = most_bytes;
  for (bool is_guess = true; high - low > 1;) {
    const std::int64_t width = high - low;
    const double part = static_cast<double>(limit - low_bytes) / static_cast<double>(high_bytes - low_bytes);
    const std::int64_t step = is_guess ? static_cast<std::int64_t>(part * static_cast<double>(width)) : width / 2;
    const std::int64_t tried = low + std::clamp<std::int64_t>(step, 1, width - 1);
    const Bytes tried_bytes = bytes(tried);
    if (tried_bytes <= limit) {
      low = tried;
      low_bytes = tried_bytes;
    } else {
      high = tried;
      high_bytes = tried_bytes;
    }
    is_guess = !is_guess || 2 * (high - low) <= width;
  }
  return low;
}

}  // namespace kvtide::experiment
