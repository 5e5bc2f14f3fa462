#include "kv/compression/pyramid_budget.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {

std::int64_t pyramid_count(const PyramidRule& rule, std::int64_t num_positions, PartsPerMillion keep,
                           std::int64_t layer, std::int64_t num_layers) {
  const double kept = static_cast<double>(num_positions) * static_cast<double>(keep) * 1e-6;
  const auto window = static_cast<double>(rule.window);
  const auto beside = static_cast<double>(num_positions) - window;
  double smallest = kept / rule.beta;
  double largest = 2 * kept - smallest;
  if (largest >= beside) {
    largest = beside;
    smallest = 2 * kept - largest;
  }
  double count = kept;
  if (num_layers > 1 && largest >= smallest && smallest >= window) {
    const double step = (largest - smallest) / static_cast<double>(num_layers - 1);
    count = largest - static_cast<double>(layer) * step;
  }
  // Halves to the even neighbour, as the current rounding mode does.
  return std::clamp<std::int64_t>(std::llrint(count), 1, num_positions);
}

}  // namespace kvtide::kv
