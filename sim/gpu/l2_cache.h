#pragma once
// How much of a kernel's traffic the L2 answers, when the same buffers are streamed again and again.
//
// A stream that fits is read from L2 wholly. A larger one under random replacement: a line survives until its next use
// when none of the misses in between replaced it, so the hit rate h of a cyclic sweep over N bytes in a cache of C
// bytes solves
//   h = exp(-(N / C) * (1 - h)).
// Example: N = 2 C -> h = 0.203; N = 4 C -> h = 0.0198. (LRU would give 0 for any N > C: a cliff that GPUs do not
// show.)

#include <cstdint>

namespace kvtide::gpu {

/// What a previous kernel left in L2: serving evicts a layer's KV between steps (cold); benchmarks replay it (warm).
enum class L2State : std::uint8_t { cold, warm };

/// @param swept_bytes     re-read each time, >= 0
/// @param capacity_bytes  > 0
/// @return hits / accesses, 0..1; 1 while swept_bytes <= capacity_bytes
[[nodiscard]] double cyclic_hit_rate(double swept_bytes, double capacity_bytes);

}  // namespace kvtide::gpu
