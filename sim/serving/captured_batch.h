#pragma once
// Decode-only steps replay CUDA graphs, which are captured for some batch sizes only (vLLM 0.19.0: 1, 2, 4, then by 8 up to 248, by
// 16 beyond, at most min(2 * max_num_seqs, 512)).
//
// Example: 9 sequences run as 16, 250 as 256; 600 beyond the largest capture as they are.

#include <cstdint>

namespace kvtide::serving {

/// The captured size that serves `num_tokens`; `num_tokens` itself above the largest.
[[nodiscard]] std::int64_t padded_batch(std::int64_t num_tokens, std::int64_t largest_capture);

/// @param max_num_seqs  >= 1
[[nodiscard]] std::int64_t largest_captured_batch(std::int64_t max_num_seqs);

}  // namespace kvtide::serving
