// Small floats whose blocks of channels share a scale.
//   NVFP4   E2M1, 16 channels, scale E4M3(max|x| / 6 / t), t an FP32 scale of the tensor that puts the largest scale at 448
//           (NVIDIA, Introducing NVFP4): 4 + 8/16 = 4.5 bits
//   MXFP4   E2M1, 32 channels, scale 2^(floor(log2 max|x|) - 2): 4 + 8/32 = 4.25 bits
//   MXFP8   E4M3, 32 channels, scale 2^(floor(log2 max|x|) - 8): 8.25 bits
// (OCP Microscaling Formats specification 1.0, sections 5.2 and 6.3). The tensor's FP32 scale is a constant of the model
// and not charged to a sequence.

#include <algorithm>
#include <cmath>

#include "kv/compression/codec.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kNvBlock = 16;
constexpr std::int64_t kMxBlock = 32;
constexpr int kLowestScaleExponent = -127;  // E8M0
constexpr int kHighestScaleExponent = 127;

template <typename Block>
void round_scaled(Block&& block, float scale, const SmallFloat& format) {
  for (float& element : block) element = scale > 0 ? format.round(element / scale) * scale : 0.0F;
}

void code_nvfp4(const CodecUse&, const CodecRows& rows) {
  const float tensor_scale = rows.values->cwiseAbs().maxCoeff() / (kE2M1.largest * kE4M3.largest);
  if (tensor_scale == 0) return;
  for (std::int64_t row = 0; row < rows.values->rows(); ++row) {
    for (std::int64_t column = 0; column < rows.values->cols(); column += kNvBlock) {
      auto block = rows.values->row(row).segment(column, kNvBlock);
      const float scale = kE4M3.round(block.cwiseAbs().maxCoeff() / kE2M1.largest / tensor_scale) * tensor_scale;
      round_scaled(block, scale, kE2M1);
    }
  }
}

template <const SmallFloat& kFormat>
void code_mx(const CodecUse&, const CodecRows& rows) {
  const int largest_exponent = std::ilogb(kFormat.largest);
  for (std::int64_t row = 0; row < rows.values->rows(); ++row) {
    for (std::int64_t column = 0; column < rows.values->cols(); column += kMxBlock) {
      auto block = rows.values->row(row).segment(column, kMxBlock);
      const float largest = block.cwiseAbs().maxCoeff();
      if (largest == 0) continue;
      const int exponent =
          std::clamp(std::ilogb(largest) - largest_exponent, kLowestScaleExponent, kHighestScaleExponent);
      round_scaled(block, std::ldexp(1.0F, exponent), kFormat);
    }
  }
}

}  // namespace

std::vector<Codec> block_float_codecs() {
  const std::string_view mx_paper = "arXiv 2310.10537";
  return {
      {.name = "nvfp4",
       .summary = "E2M1 in blocks of 16 channels with an E4M3 scale, FP32 scale of the tensor",
       .paper = "arXiv 2509.25149",
       .bits = 4,
       .divisor = kNvBlock,
       .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / 2 + use.columns / kNvBlock); },
       .code = &code_nvfp4},
      {.name = "mxfp4",
       .summary = "E2M1 in blocks of 32 channels with a power-of-two scale",
       .paper = mx_paper,
       .bits = 4,
       .divisor = kMxBlock,
       .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / 2 + use.columns / kMxBlock); },
       .code = &code_mx<kE2M1>},
      {.name = "mxfp8",
       .summary = "E4M3 in blocks of 32 channels with a power-of-two scale",
       .paper = mx_paper,
       .bits = 8,
       .divisor = kMxBlock,
       .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns + use.columns / kMxBlock); },
       .code = &code_mx<kE4M3>}};
}

}  // namespace kvtide::kv
