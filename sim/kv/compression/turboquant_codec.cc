// TurboQuant (arXiv 2504.19874) as vLLM stores it, without the QJL stage. A key is divided by its length, rotated at random,
// and each channel, now nearly normal, becomes the nearest of 2^b Lloyd-Max levels; the length is kept in fp16. A value is
// b-bit integers with fp16 scale and zero point.
// Example, head_dim 128: K at 4 bits 64 + 2 B, V 64 + 4 B: 134 B for 512 B of fp16, 3.82 times; at 3 bits 102 B, 5.02 times.

#include "kv/compression/codec.h"
#include "kv/compression/integer_codec.h"
#include "kv/compression/level_table.h"
#include "kv/compression/random_rotation.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kLengthBytes = 2;
constexpr std::int64_t kScaleAndZeroBytes = 4;

Bytes row_bytes(const CodecUse& use) {
  return static_cast<Bytes>(ceil_div(use.columns * use.codec->bits, 8) +
                            (use.is_key ? kLengthBytes : kScaleAndZeroBytes));
}

void code_keys(std::int32_t bits, RowMatrix& values) {
  const RandomRotation rotation(static_cast<std::size_t>(values.cols()));
  const std::vector<float>& levels = gaussian_levels(bits);
  const float spread =
      std::sqrt(static_cast<float>(values.cols()));  // of a rotated row of length 1, times this: variance 1
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    const std::span<float> channels(values.row(row).data(), static_cast<std::size_t>(values.cols()));
    const float length = values.row(row).norm();
    if (length == 0) continue;
    const auto stored_length = static_cast<float>(static_cast<Eigen::half>(length));
    rotation.rotate(channels);
    for (float& channel : channels) channel = channel / length * spread;
    take_nearest_levels(levels, channels.data(), std::ssize(channels));
    for (float& channel : channels) channel = channel / spread * stored_length;
    rotation.rotate_back(channels);
  }
}

void code(const CodecUse& use, const CodecRows& rows) {
  if (use.is_key) {
    code_keys(use.codec->bits, *rows.values);
  } else {
    quantize_rows(*rows.values, 0, rows.values->rows(), {use.codec->bits, rows.values->cols(), false},
                  GroupAxis::token);
  }
}

Codec turboquant(std::string_view name, std::int32_t bits) {
  return {.name = name,
          .summary = "K: random rotation and Lloyd-Max levels, fp16 length; V: integers of one token",
          .paper = "arXiv 2504.19874",
          .bits = bits,
          .write_operations = 20,  // log2(128) additions twice, the search among the levels
          .needs_power_of_two = true,
          .row_bytes = &row_bytes,
          .code = &code};
}

}  // namespace

std::vector<Codec> turboquant_codecs() {
  return {turboquant("turboquant4", 4), turboquant("turboquant3", 3), turboquant("turboquant2", 2)};
}

}  // namespace kvtide::kv
