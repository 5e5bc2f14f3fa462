#pragma once
// A device memory that answers every pattern with one rate. For what-ifs and for tests of kernels alone.

#include <limits>

#include "gpu/access_pattern.h"

namespace kvtide::gpu {

class ConstantRateMemory final : public MemoryModel {
 public:
  /// @param peak_bytes_per_second  at the pins, > 0. @param peak_fraction  reached by every pattern, in (0, 1]
  ConstantRateMemory(double peak_bytes_per_second, double peak_fraction)
      : peak_(peak_bytes_per_second), peak_fraction_(peak_fraction) {}

  [[nodiscard]] MemoryPerformance measure(const AccessPattern& /*pattern*/) override {
    return {.bytes_per_second = peak_ * peak_fraction_,
            .peak_fraction = peak_fraction_,
            .row_hit_rate = std::numeric_limits<double>::quiet_NaN(),
            .relative_half_width = 0};
  }

 private:
  double peak_;
  double peak_fraction_;
};

}  // namespace kvtide::gpu
