// The block formats of llama.cpp's cache (ggml, reference quantizers): 32 channels of one row share an fp16 scale d and,
// in the _1 formats, an fp16 minimum m. Codes are found with the unrounded scale and read back with the rounded one, as
// ggml does.
//   q8_0  d = max|x| / 127            code = round(x / d)                      34 B
//   q5_0  d = x_max / -16             code = min(31, floor(x / d + 16.5))      22 B   x_max: the value of largest magnitude
//   q5_1  d = (max - min) / 31        code = floor((x - m) / d + 0.5)          24 B
//   q4_0  d = x_max / -8              code = min(15, floor(x / d + 8.5))       18 B
//   q4_1  d = (max - min) / 15        code = min(15, floor((x - m) / d + 0.5)) 20 B
//   iq4_nl  16 uneven levels; codes from d = x_max / -127, then d = sum w q x / sum w q q with w = x x   18 B

#include <array>
#include <cmath>

#include "kv/compression/codec.h"
#include "kv/compression/half_rounding.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kBlock = 32;
using Row = Eigen::Ref<Eigen::Array<float, 1, Eigen::Dynamic>>;

/// The value of largest magnitude, the first of equal ones, with its sign.
float extreme(const Row& x) {
  float largest = 0;
  float value = 0;
  for (const float element : x) {
    if (std::abs(element) > largest) {
      largest = std::abs(element);
      value = element;
    }
  }
  return value;
}

void code_q8_0(Row x) {
  const float scale = x.abs().maxCoeff() / 127.0F;
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  const float stored = nearest_half(scale);
  for (float& element : x) element = std::round(element * inverse) * stored;
}

template <int kBits>
void code_signed(Row x) {
  constexpr float kHalf = 1 << (kBits - 1);
  constexpr float kTop = 2 * kHalf - 1;
  const float scale = extreme(x) / -kHalf;
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  const float stored = nearest_half(scale);
  for (float& element : x) {
    const float level = std::min(kTop, std::trunc(element * inverse + kHalf + 0.5F));
    element = (level - kHalf) * stored;
  }
}

template <int kBits>
void code_with_minimum(Row x) {
  constexpr float kTop = (1 << kBits) - 1;
  const float minimum = x.minCoeff();
  const float scale = (x.maxCoeff() - minimum) / kTop;
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  const float stored = nearest_half(scale);
  const float stored_minimum = nearest_half(minimum);
  for (float& element : x) {
    const float level = std::min(kTop, std::trunc((element - minimum) * inverse + 0.5F));
    element = level * stored + stored_minimum;
  }
}

/// ggml-common.h, kvalues_iq4nl.
constexpr std::array<float, 16> kUnevenLevels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

float nearest_uneven(float x) {
  std::size_t upper = 0;
  while (upper < kUnevenLevels.size() && kUnevenLevels[upper] <= x) ++upper;
  if (upper == 0) return kUnevenLevels.front();
  if (upper == kUnevenLevels.size()) return kUnevenLevels.back();
  const float below = kUnevenLevels[upper - 1];
  const float above = kUnevenLevels[upper];
  return x - below < above - x ? below : above;
}

void code_iq4_nl(Row x) {
  const float scale = extreme(x) / kUnevenLevels.front();
  if (scale == 0) {
    x.setZero();
    return;
  }
  const float inverse = 1.0F / scale;
  float weighted_qx = 0;
  float weighted_qq = 0;
  std::array<float, kBlock> levels{};
  for (std::int64_t index = 0; index < x.size(); ++index) {
    const float level = nearest_uneven(inverse * x[index]);
    levels[static_cast<std::size_t>(index)] = level;
    const float weight = x[index] * x[index];
    weighted_qx += weight * level * x[index];
    weighted_qq += weight * level * level;
  }
  const float stored = nearest_half(weighted_qq > 0 ? weighted_qx / weighted_qq : 0.0F);
  for (std::int64_t index = 0; index < x.size(); ++index) x[index] = levels[static_cast<std::size_t>(index)] * stored;
}

template <void (*kCode)(Row)>
void code(const CodecUse&, const CodecRows& rows) {
  for (std::int64_t row = 0; row < rows.values->rows(); ++row) {
    for (std::int64_t column = 0; column < rows.values->cols(); column += kBlock) {
      kCode(rows.values->row(row).segment(column, kBlock).array());
    }
  }
}

template <void (*kCode)(Row), std::int64_t kBlockBytes>
Codec ggml(std::string_view name, std::int32_t bits, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .paper = "",
          .bits = bits,
          .divisor = kBlock,
          .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / kBlock * kBlockBytes); },
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
