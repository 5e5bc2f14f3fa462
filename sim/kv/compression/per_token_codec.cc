// One scale for each token and KV head. Symmetric (vLLM's *_per_token_head): an FP32 scale max|x| / largest, 4 B a row.
// Asymmetric (QServe KV4, arXiv 2405.04532): fp16 scale and zero point beside each token's codes in the page, 4 B a row.
// Example: head_dim 128, int4: 64 B of codes + 4 B = 68 B a row, 4.25 bits an element.

#include "kv/compression/codec.h"
#include "kv/compression/group_codes.h"
#include "kv/compression/integer_codec.h"
#include "kv/compression/scaled_floats.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kScaleBytes = 4;

Bytes row_bytes(const CodecUse& use) {
  return static_cast<Bytes>(ceil_div(use.columns * use.codec->bits, 8) + kScaleBytes);
}

void code_integer(const CodecUse& use, const CodecRows& rows) {
  const auto largest = static_cast<float>((1 << (use.codec->bits - 1)) - 1);
  code_groups(rows.values->data(), rows.values->cols(), rows.values->rows(),
              {.smallest = -largest, .largest = largest, .is_symmetric = true, .has_half_metadata = false});
}

void code_float(const CodecUse&, const CodecRows& rows) {
  code_e4m3_groups(rows.values->data(), rows.values->cols(), rows.values->rows());
}

void code_asymmetric(const CodecUse& use, const CodecRows& rows) {
  quantize_rows(*rows.values, 0, rows.values->rows(), {use.codec->bits, rows.values->cols(), false}, GroupAxis::token);
}

Codec per_token(std::string_view name, std::int32_t bits, std::string_view summary, std::string_view paper,
                void (*code)(const CodecUse&, const CodecRows&), double read_cost = 1) {
  return {.name = name,
          .summary = summary,
          .paper = paper,
          .bits = bits,
          .read_cost = read_cost,
          .row_bytes = &row_bytes,
          .code = code};
}

}  // namespace

std::vector<Codec> per_token_codecs() {
  return {per_token("int8_per_token_head", 8, "symmetric int8, an FP32 scale a token and head", "", &code_integer),
          per_token("int4_per_token_head", 4, "symmetric int4, an FP32 scale a token and head", "", &code_integer),
          per_token("fp8_per_token_head", 8, "E4M3, an FP32 scale a token and head", "", &code_float),
          per_token("qserve_kv8", 8, "asymmetric int8, 16-bit scale and zero point a token and head in the page",
                    "arXiv 2405.04532", &code_asymmetric),
          per_token("qserve_kv4", 4, "asymmetric int4, 16-bit scale and zero point a token and head in the page",
                    "arXiv 2405.04532", &code_asymmetric)};
}

}  // namespace kvtide::kv
