// Small floats whose blocks of channels share a scale.
//   NVFP4   E2M1, 16 channels, scale E4M3(max|x| / 6 / t), t an FP32 scale of the tensor that puts the largest scale at 448
//           (NVIDIA, Introducing NVFP4): 4 + 8/16 = 4.5 bits
//   MXFP4   E2M1, 32 channels, scale 2^(floor(log2 max|x|) - 2): 4 + 8/32 = 4.25 bits
//   MXFP8   E4M3, 32 channels, scale 2^(floor(log2 max|x|) - 8): 8.25 bits
// (OCP Microscaling Formats specification 1.0, sections 5.2 and 6.3). The tensor's FP32 scale is a constant of the model
// and not charged to a sequence.

#include "kv/compression/codec.h"
#include "kv/compression/scaled_floats.h"

namespace kvtide::kv {
namespace {

template <void (*kCode)(float*, std::int64_t), std::int64_t kBlock>
void code(const CodecUse&, const CodecRows& rows) {
  kCode(rows.values->data(), rows.values->size() / kBlock);
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
       .code = &code<&code_nvfp4, kNvBlock>},
      {.name = "mxfp4",
       .summary = "E2M1 in blocks of 32 channels with a power-of-two scale",
       .paper = mx_paper,
       .bits = 4,
       .divisor = kMxBlock,
       .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / 2 + use.columns / kMxBlock); },
       .code = &code<&code_mxfp4, kMxBlock>},
      {.name = "mxfp8",
       .summary = "E4M3 in blocks of 32 channels with a power-of-two scale",
       .paper = mx_paper,
       .bits = 8,
       .divisor = kMxBlock,
       .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns + use.columns / kMxBlock); },
       .code = &code<&code_mxfp8, kMxBlock>}};
}

}  // namespace kvtide::kv
