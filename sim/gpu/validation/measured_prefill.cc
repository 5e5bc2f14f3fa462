// <gpu>_prefill_attn.csv: causal prefill of isl tokens with nothing in the cache yet.
#include <fmt/format.h>

#include "base/error.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

/// 0: a type that the tables of this layout do not hold.
std::int64_t bits_of(const std::string& dtype) {
  if (dtype == "fp8") return 8;
  return dtype == "bfloat16" || dtype == "float16" ? 16 : 0;
}

}  // namespace

RowPrediction predict_prefill_row(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  PrefillAttentionWork work;
  work.sequences.push_back(
      {.num_new = table.integer(row, "isl", 1, kMaxCount), .count = table.integer(row, "batch", 1, kMaxCount)});
  work.heads = table.integer(row, "heads", 1, 65536);
  work.kv_heads = table.integer(row, "kv_heads", 1, 65536);
  work.head_dim = table.integer(row, "head_dim", 1, 65536);
  work.window = table.integer(row, "window", 0, kMaxCount);
  work.query_bits = bits_of(table.text(row, "attn_dtype"));
  work.kv_bits = bits_of(table.text(row, "kv_dtype"));
  work.kernel = table.text(row, "framework");
  const double tokens =
      static_cast<double>(work.sequences.front().num_new) * static_cast<double>(work.sequences.front().count);
  const double elements = tokens * static_cast<double>(work.head_dim);
  RowPrediction prediction;
  prediction.bytes = elements * static_cast<double>(4 * work.heads + 4 * work.kv_heads);  // Q, O, K, V in 16 bit
  if (work.query_bits == 0 || work.kv_bits == 0 || work.heads % work.kv_heads != 0) return prediction;
  prediction.microseconds = to_microseconds(gpu.prefill_attention(work, L2State::warm).duration);
  return prediction;
}

}  // namespace kvtide::gpu
