#pragma once
// How much of a kernel's traffic the L2 answers, when the same buffers are streamed again and again.
//
// A stream that fits is read from L2 wholly. A larger one: a line survives until its next use when none of the misses in
// between replaced it, so the hit rate h of a cyclic sweep over N bytes in a cache of C bytes solves
//   h = exp(-(N / C)^a * (1 - h)).
// a = 1 is random replacement, large a is LRU, which gives 0 for any N > C. a = 2, calibrated on: decode_attn rows of
// aiconfigurator-core 0.12.0, where it leaves C at the datasheet's L2 on an RTX PRO 6000 (42 us for 128 MiB, 120 us for
// 160 MiB) and at half of it on H100 and A100, whose two partitions copy each other's lines; a = 1 asks for 0.77 and 0.3.
// Example: N = 1.41 C -> h = 0.203; N = 2 C -> h = 0.0198.

#include <cstdint>

namespace kvtide::gpu {

/// What a previous kernel left in L2: serving evicts a layer's KV between steps (cold); benchmarks replay it (warm).
enum class L2State : std::uint8_t { cold, warm };

/// @param swept_bytes     re-read each time, >= 0
/// @param capacity_bytes  > 0
/// @return hits / accesses, 0..1; 1 while swept_bytes <= capacity_bytes
[[nodiscard]] double cyclic_hit_rate(double swept_bytes, double capacity_bytes);

}  // namespace kvtide::gpu
