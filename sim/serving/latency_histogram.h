#pragma once
// Times counted in narrow bins, for runs with more of them than one keeps: each bin is 0.2 % wide, so a quantile is within 0.1 % of
// the exact one. Memory is bounded whatever the number of values.
//
// Example: 99 gaps of 10 ms and one of 50 ms: p50 and p95 10 ms, the largest 50 ms, mean 10.4 ms.

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace kvtide::serving {

class LatencyHistogram {
 public:
  /// @param seconds  >= 0; below 100 ns and above 1e7 s counted there  @param count  of equal values, >= 0
  void add(double seconds, std::int64_t count = 1);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double mean() const;  ///< exact; NaN of none
  [[nodiscard]] double max() const { return max_; }
  /// The value that `share` of all do not exceed, to the width of a bin; NaN of none. @param share  0..1
  [[nodiscard]] double quantile(double share) const;

  struct Bin {
    double seconds = 0;  ///< its middle
    std::int64_t count = 0;
  };
  /// With a value in them, rising; `merged` neighbours to a bin, >= 1.
  [[nodiscard]] std::vector<Bin> bins(std::int64_t merged = 1) const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  double sum_ = 0, max_ = 0;
  double last_seconds_ = -1;
  std::size_t last_bin_ = 0;  // of last_seconds_: neighbours of a batch share their gap
};

}  // namespace kvtide::serving
