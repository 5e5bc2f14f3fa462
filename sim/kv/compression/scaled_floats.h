#pragma once
// Small floats whose groups share a scale, in vector registers: values x become format.round(x / scale) * scale in place,
// 0 where the scale is 0. Every step rounds once in float32 on every processor.

#include <cstdint>

namespace kvtide::kv {

inline constexpr std::int64_t kNvBlock = 16;
inline constexpr std::int64_t kMxBlock = 32;

/// E4M3, groups of `group` values, scale max|x| / 448.
void code_e4m3_groups(float* values, std::int64_t group, std::int64_t num_groups);

/// E2M1, blocks of kNvBlock, scale E4M3(max|x| / 6 / t) t with t = max|x| of all / (6 * 448).
void code_nvfp4(float* values, std::int64_t num_blocks);

/// Blocks of kMxBlock, scale a power of two: the largest value's exponent less the format's largest.
void code_mxfp4(float* values, std::int64_t num_blocks);
void code_mxfp8(float* values, std::int64_t num_blocks);

}  // namespace kvtide::kv
