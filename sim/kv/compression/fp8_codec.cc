// 8-bit floats with one scale for the whole tensor. The scale is 1, what vLLM and SGLang use for a checkpoint without
// calibrated scales: entries beyond the format's largest saturate, and the error does not depend on a scale otherwise.

#include "kv/compression/codec.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

template <const SmallFloat& kFormat>
void code(const CodecUse&, const CodecRows& rows) {
  kFormat.round_all(rows.values->data(), rows.values->size());
}

template <const SmallFloat& kFormat>
Codec fp8(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .paper = "arXiv 2209.05433",
          .bits = 8,
          .read_cost = 0.5,  // one conversion makes two 16-bit floats
          .write_operations = 1,
          .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns); },
          .code = &code<kFormat>};
}

}  // namespace

std::vector<Codec> fp8_codecs() {
  return {fp8<kE4M3>("fp8_e4m3", "8-bit float, 3 mantissa bits, at most 448, tensor scale 1"),
          fp8<kE5M2>("fp8_e5m2", "8-bit float, 2 mantissa bits, at most 57344, tensor scale 1")};
}

}  // namespace kvtide::kv
