#include "gpu/validation/attention_rows.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "gpu/compressed_attention.h"
#include "gpu/mla_decode.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;
constexpr std::int64_t kMaxHeads = 65536;

/// Bytes of an element of a stored type; nothing for a type that the tables do not have.
std::optional<double> element_bytes(const std::string& type) {
  static const std::map<std::string, double> known{{"bfloat16", 2}, {"float16", 2},   {"fp8", 1},
                                                   {"fp8_e4m3", 1}, {"fp8_block", 1}, {"nvfp4", 0.5625}};
  const auto found = known.find(type);
  return found == known.end() ? std::nullopt : std::optional<double>(found->second);
}

}  // namespace

std::optional<DecodeAttentionWork> mla_decode_row(const GpuProfile& profile, const config::CsvTable& table,
                                                  std::size_t row) {
  MlaShape shape;
  shape.batch = table.integer(row, "batch", 1, kMaxCount);
  shape.num_entries = table.integer(row, "kv_len", 1, kMaxCount);
  shape.num_heads = table.integer(row, "heads", 1, kMaxHeads);
  const std::optional<double> bytes = element_bytes(table.text(row, "kv_dtype"));
  if (!bytes || *bytes < 1) return std::nullopt;
  shape.element_bits = *bytes > 1 ? 16 : 8;
  try {
    return mla_decode_work(profile, shape, table.text(row, "framework"));
  } catch (const InputError&) {
    return std::nullopt;  // this GPU has no latent kernel of the framework
  }
}

RowPrediction predict_mla_decode(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  RowPrediction prediction;
  const std::optional<DecodeAttentionWork> work = mla_decode_row(gpu.profile(), table, row);
  if (!work) return prediction;
  const auto batch = static_cast<double>(table.integer(row, "batch", 1, kMaxCount));
  const auto heads = static_cast<double>(table.integer(row, "heads", 1, kMaxHeads));
  const auto entries = static_cast<double>(table.integer(row, "kv_len", 1, kMaxCount));
  prediction.bytes =
      batch * entries * 576 * *element_bytes(table.text(row, "kv_dtype")) + 2 * batch * heads * (576 + 512);
  try {
    prediction.microseconds = to_microseconds(gpu.decode_attention(*work, L2State::warm).duration);
  } catch (const InputError&) {
    // No latent kernel serves the shape: counted as refused.
  }
  return prediction;
}

RowPrediction predict_compressed_decode(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  const std::int64_t batch = table.integer(row, "batch", 1, kMaxCount);
  const std::int64_t context = table.integer(row, "kv_len", 1, kMaxCount);
  const std::int64_t heads = table.integer(row, "heads", 1, kMaxHeads);
  const std::int64_t ratio = table.integer(row, "compress_ratio", 1, kMaxHeads);
  const std::string& kind = table.text(row, "op");
  const std::optional<double> weight_bytes = element_bytes(table.text(row, "gemm_type"));
  const std::optional<double> kv_bytes = element_bytes(table.text(row, "kv_dtype"));
  RowPrediction prediction;
  if (!weight_bytes || !kv_bytes) return prediction;
  // Some layers of GLM-5.2 attend what an earlier layer selected.
  const bool skips = table.text(row, "kernel").find("_skip_") != std::string::npos;
  try {
    const bool has_indexer = !skips && kind != "dsv4_hca";
    const CompressedAttentionWork work = compressed_attention_work(sparse_model(table.text(row, "model")), ratio,
                                                                   has_indexer, batch, context, heads, *weight_bytes);
    prediction.bytes = work.projection_elements * *weight_bytes + 2 * work.absorbed_elements +
                       static_cast<double>(batch) *
                           (static_cast<double>(work.index_entries) * work.index_entry_bytes +
                            static_cast<double>(work.attended_entries) * (kind == "dsa" ? 576 : 512) * *kv_bytes);
    const AttentionModule module = load_attention_module(table.text(row, "framework"), kind + (skips ? "-skip" : ""),
                                                         gpu.profile().memory_standard);
    prediction.microseconds =
        to_microseconds(time_compressed_attention(gpu.profile(), gpu.memory(), module, work).duration);
  } catch (const InputError&) {
    // A model or module that is not known: counted as refused.
  }
  return prediction;
}

}  // namespace kvtide::gpu
