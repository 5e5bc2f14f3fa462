// The block formats of llama.cpp's cache (ggml, reference quantizers): 32 channels of one row share an fp16 scale d and,
// in the _1 formats, an fp16 minimum m. Codes are found with the unrounded scale and read back with the rounded one, as
// ggml does.
//   q8_0  d = max|x| / 127            code = round(x / d)                      34 B
//   q5_0  d = x_max / -16             code = min(31, floor(x / d + 16.5))      22 B   x_max: the value of largest magnitude
//   q5_1  d = (max - min) / 31        code = floor((x - m) / d + 0.5)          24 B
//   q4_0  d = x_max / -8              code = min(15, floor(x / d + 8.5))       18 B
//   q4_1  d = (max - min) / 15        code = min(15, floor((x - m) / d + 0.5)) 20 B
//   iq4_nl  16 uneven levels; codes from d = x_max / -127, then d = sum w q x / sum w q q with w = x x   18 B

#include "kv/compression/codec.h"
#include "kv/compression/ggml_blocks.h"

namespace kvtide::kv {
namespace {

template <void (*kCode)(float*, std::int64_t)>
void code(const CodecUse&, const CodecRows& rows) {
  kCode(rows.values->data(), rows.values->size() / kGgmlBlock);
}

template <std::int32_t kBits>
void code_signed(float* values, std::int64_t num_blocks) {
  code_signed_blocks(values, num_blocks, kBits);
}

template <std::int32_t kBits>
void code_with_minimum(float* values, std::int64_t num_blocks) {
  code_blocks_with_minimum(values, num_blocks, kBits);
}

template <void (*kCode)(float*, std::int64_t), std::int64_t kBlockBytes>
Codec ggml(std::string_view name, std::int32_t bits, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .paper = "",
          .bits = bits,
          .divisor = kGgmlBlock,
          .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / kGgmlBlock * kBlockBytes); },
          .code = &code<kCode>};
}

}  // namespace

std::vector<Codec> ggml_codecs() {
  return {ggml<&code_q8_0, 34>("q8_0", 8, "llama.cpp: 32 channels, fp16 scale"),
          ggml<&code_with_minimum<5>, 24>("q5_1", 5, "llama.cpp: 32 channels, fp16 scale and minimum"),
          ggml<&code_signed<5>, 22>("q5_0", 5, "llama.cpp: 32 channels, fp16 scale"),
          ggml<&code_with_minimum<4>, 20>("q4_1", 4, "llama.cpp: 32 channels, fp16 scale and minimum"),
          ggml<&code_signed<4>, 18>("q4_0", 4, "llama.cpp: 32 channels, fp16 scale"),
          ggml<&code_iq4_nl, 18>("iq4_nl", 4, "llama.cpp: 32 channels, fp16 scale, 16 uneven levels")};
}

}  // namespace kvtide::kv
