#pragma once
// GPUs, switches and root ports as vertices, links as edges (Boost.Graph): which way a message takes, and how long a
// set of simultaneous transfers lasts. Each direction of a link carries its own bytes; the fullest link decides.
//
// Example, PCIe, four GPUs in two pairs, links 63 GB/s, 42 across: in a ring 0-1-2-3 each hop carries W bytes; 0 to 1 is
// direct, 1 to 2 crosses: W / 42 GB/s.

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/interconnect.h"

namespace kvtide::gpu {

/// Bytes from one rank to another.
struct Transfer {
  std::int64_t from = 0;
  std::int64_t to = 0;
  double bytes = 0;
};

class LinkTopology {
 public:
  /// @throws InputError  num_ranks not in 1..max_ranks
  LinkTopology(const Interconnect& link, std::int64_t num_ranks);
  ~LinkTopology();
  LinkTopology(LinkTopology&&) noexcept;

  /// Seconds at full link rate when all start together, each over the route of fewest links.
  [[nodiscard]] double transfer_time(const std::vector<Transfer>& transfers) const;
  /// Links on the route between two ranks; 0 for a rank and itself.
  [[nodiscard]] std::int64_t num_links(std::int64_t from, std::int64_t to) const;

  /// Every rank to the next one.
  [[nodiscard]] double ring_time(double bytes_per_rank) const;
  /// Every rank to all others, an equal part each.
  [[nodiscard]] double direct_time(double bytes_per_rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvtide::gpu
