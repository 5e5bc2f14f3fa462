#pragma once
// Kernels and what must end before each may start; when each runs, and which of them the whole waits for.
// (Critical path method: earliest start forward, latest start backward over a topological order.)
//
// Example: a (3 us) before b (5 us) and c (1 us), both before d (2 us): d starts at 8, ends at 10 us; c has 4 us of
// slack.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"

namespace kvtide::gpu {

using KernelIndex = std::size_t;

/// A kernel in its place in time.
struct ScheduledKernel {
  std::string kernel_class;  ///< "attention"
  Picoseconds start{0};      ///< earliest
  Picoseconds duration{0};
  std::int64_t stage = 0;   ///< of a pipeline: which GPUs
  std::int64_t stream = 0;  ///< of that stage
  Picoseconds slack{0};     ///< it may start that much later without delaying the end; 0 on the critical path
};

struct KernelSchedule {
  Picoseconds duration{0};
  std::vector<ScheduledKernel> kernels;  ///< [kernel], in order of addition
};

/// A kernel may only depend on kernels added before it, so there is no cycle.
/// Approximation: kernels that run side by side do not slow each other down.
class KernelGraph {
 public:
  KernelGraph();
  ~KernelGraph();
  KernelGraph(KernelGraph&&) noexcept;

  /// @param after  indices returned by earlier calls. @throws Error (internal) for any other
  KernelIndex add(std::string kernel_class, Picoseconds duration, const std::vector<KernelIndex>& after,
                  std::int64_t stage = 0, std::int64_t stream = 0);
  [[nodiscard]] KernelSchedule schedule() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvtide::gpu
