#pragma once
// Whether the KV cache is what limits a fleet at all: the same replicas with a cache without limit, and with one that also costs
// nothing to read.

#include <cstdint>
#include <string>

#include "planning/fleet_size.h"

namespace kvtide::planning {

struct KvLimit {
  bool is_known = false;
  std::string setting;        ///< "8 x h100-sxm, none"
  double rate = 0;            ///< requests/s, cache uncompressed
  double rate_unlimited = 0;  ///< memory for every request there could be
  double rate_free = 0;       ///< and entries that cost nothing to read
  double used_share = 0;      ///< most, of the KV pages, at `rate`

  /// Less than this more traffic is no limit worth speaking of.
  static constexpr double kWorthwhile = 0.05;
  [[nodiscard]] bool is_memory() const { return rate_unlimited > rate * (1 + kWorthwhile); }
  [[nodiscard]] bool is_bandwidth() const { return rate_free > rate_unlimited * (1 + kWorthwhile); }
  /// One sentence.
  [[nodiscard]] std::string text() const;
};

/// @param run  the uncompressed policy's, with the batch limit of interest  @param start  requests/s to search from
[[nodiscard]] KvLimit kv_limit_of(const experiment::Run& run, const Policy& uncompressed, const Model& model,
                                  gpu::Gpu& gpu, const Traffic& traffic, const Plan& plan, std::int64_t replicas,
                                  double start);

}  // namespace kvtide::planning
