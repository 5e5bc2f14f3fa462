#pragma once
// How a kernel touches device memory, and what the memory makes of it. The signature by which the `sampled` tier memoises.

#include <cstdint>

#include "base/units.h"

namespace kvtide::gpu {

/// Reads (and some writes) of equal contiguous chunks by many streams at once.
///
/// Example: paged KV of page_size 16, head_dim 128, fp16, one head a page -> chunk_bytes = 16 * 128 * 2 = 4096 B.
struct AccessPattern {
  Bytes chunk_bytes = 4096;         ///< contiguous bytes before the stream jumps to an unrelated address, >= 32
  std::int64_t num_streams = 64;    ///< chunks being read at the same time, >= 1
  double write_share = 0;           ///< share of the bytes that are written, 0..1
  Bytes bytes_in_flight = 4 << 20;  ///< requested and not yet returned, over the whole device
  bool operator==(const AccessPattern&) const = default;
};

struct MemoryPerformance {
  double bytes_per_second = 0;     ///< achieved, over the whole device
  double peak_fraction = 0;        ///< achieved / pin bandwidth
  double row_hit_rate = 0;         ///< 1 - activates / column commands; NaN where a tier does not know
  double relative_half_width = 0;  ///< 95 % confidence half width of bytes_per_second, relative; 0 for closed forms
};

/// detailed: every burst scheduled, command by command. sampled: each new signature simulated once in detail, then memoised.
/// roofline: pin bandwidth times one efficiency.
enum class Fidelity : std::uint8_t { detailed, sampled, roofline };

/// What a tier that remembers signatures has been asked so far.
struct SignatureStatistics {
  std::int64_t num_lookups = 0;
  std::int64_t num_known = 0;   ///< of num_lookups, answered from memory
  double worst_half_width = 0;  ///< largest relative_half_width of what was simulated
  /// Share answered from memory, 0..1; 0 before the first lookup.
  [[nodiscard]] double hit_rate() const {
    return num_lookups > 0 ? static_cast<double>(num_known) / static_cast<double>(num_lookups) : 0.0;
  }
};

/// The device memory of one GPU.
class MemoryModel {
 public:
  virtual ~MemoryModel() = default;
  /// Steady-state rate of a pattern. Deterministic; safe to call from several threads.
  [[nodiscard]] virtual MemoryPerformance measure(const AccessPattern& pattern) = 0;
  /// All zero for a tier that remembers nothing. Safe to call from several threads.
  [[nodiscard]] virtual SignatureStatistics statistics() const { return {}; }
};

}  // namespace kvtide::gpu
