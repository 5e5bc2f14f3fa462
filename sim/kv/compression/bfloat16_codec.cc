// bfloat16: the upper half of a float32, what most models compute in. Tensor cores read it as it is, so that it costs a
// machine nothing beside fp16; 8 significant bits instead of 11 are what it loses.

#include "kv/compression/codec.h"
#include "kv/compression/half_rounding.h"

namespace kvtide::kv {

std::vector<Codec> bfloat16_codecs() {
  return {{.name = "bf16",
           .summary = "16-bit floating point with the exponent of float32, 8 significant bits",
           .paper = "",
           .read_cost = 0,
           .write_operations = 0,
           .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns) * 2; },
           .code = [](const CodecUse&,
                      const CodecRows& rows) { round_to_bfloat16(rows.values->data(), rows.values->size()); }}};
}

}  // namespace kvtide::kv
