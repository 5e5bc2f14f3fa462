#pragma once
// The arithmetic of ggml_codec.cc in vector registers: blocks of 32 values, one after another, encoded and decoded in place.
// Every step rounds once in float32 on every processor.

#include <cstdint>

namespace kvtide::kv {

inline constexpr std::int64_t kGgmlBlock = 32;

void code_q8_0(float* values, std::int64_t num_blocks);
/// q4_0 and q5_0. @param bits  4 or 5
void code_signed_blocks(float* values, std::int64_t num_blocks, std::int32_t bits);
/// q4_1 and q5_1.
void code_blocks_with_minimum(float* values, std::int64_t num_blocks, std::int32_t bits);
void code_iq4_nl(float* values, std::int64_t num_blocks);

}  // namespace kvtide::kv
