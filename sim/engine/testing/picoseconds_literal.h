#pragma once
// 5_ps: moments of simulated time in tests.

#include "base/units.h"

namespace kvtide::engine {

constexpr Picoseconds operator""_ps(unsigned long long count) {
  return Picoseconds{static_cast<std::int64_t>(count)};
}

}  // namespace kvtide::engine
