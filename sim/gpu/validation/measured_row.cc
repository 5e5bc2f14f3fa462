#include "gpu/validation/measured_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "gpu/validation/attention_rows.h"
#include "gpu/validation/measured_comm.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;
constexpr std::int64_t kPageTokens = 16;  // vLLM's default block_size; the tables do not name it

struct AttentionRow {
  std::int64_t batch, kv_len, heads, kv_heads, head_dim, window;
  bool is_8bit;
};

std::optional<AttentionRow> read_attention(const config::CsvTable& table, std::size_t row) {
  AttentionRow result{};
  result.batch = table.integer(row, "batch", 1, kMaxCount);
  result.kv_len = table.integer(row, "kv_len", 1, kMaxCount);
  result.heads = table.integer(row, "heads", 1, 65536);
  result.kv_heads = table.integer(row, "kv_heads", 1, 65536);
  result.head_dim = table.integer(row, "head_dim", 1, 65536);
  result.window = table.integer(row, "window", 0, kMaxCount);
  const std::string& dtype = table.text(row, "kv_dtype");
  result.is_8bit = dtype == "fp8";
  if (dtype != "fp8" && dtype != "bfloat16" && dtype != "float16") return std::nullopt;
  if (result.heads % result.kv_heads != 0) return std::nullopt;
  return result;
}

DecodeAttentionWork work_of(const GpuProfile& profile, const AttentionRow& row, const std::string& framework) {
  const std::int64_t entries = row.window > 0 ? std::min(row.window, row.kv_len) : row.kv_len;
  const Bytes entry_bytes = static_cast<Bytes>(row.head_dim) * (row.is_8bit ? 1 : 2);
  const PageStream stream{static_cast<Bytes>(entries) * entry_bytes, kPageTokens * entry_bytes};
  AttentionTask task{.streams = {stream, stream}, .num_entries = entries, .count = row.batch * row.kv_heads};
  task.hidden_entries = row.kv_len - entries;
  DecodeAttentionWork work;
  work.query_heads_per_task = row.heads / row.kv_heads;
  work.num_sequences = row.batch;
  work.head_dim = row.head_dim;
  work.interleaves_groups = row.batch > 1 && row.kv_heads > 1;
  work.has_window = row.window > 0;
  work.kernel = framework;
  work.math_bits = row.is_8bit && profile.tensor_flops_8bit > 0 ? 8 : 16;
  if (profile.find_attention_kernel(framework, work) == nullptr) work.math_bits = 16;
  // Without 8-bit matrix units, or a kernel for them, every fp8 entry of K and V is converted first.
  if (row.is_8bit && work.math_bits == 16) {
    task.dequantized_elements = 2 * static_cast<double>(entries) * static_cast<double>(row.head_dim);
  }
  work.tasks.push_back(task);
  return work;
}

RowPrediction predict_attention(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  RowPrediction prediction;
  const std::optional<AttentionRow> read = read_attention(table, row);
  if (!read) return prediction;
  const DecodeAttentionWork work = work_of(gpu.profile(), *read, table.text(row, "framework"));
  const AttentionTask& task = work.tasks.front();
  prediction.bytes =
      2 * static_cast<double>(task.streams.front().bytes) * static_cast<double>(task.count) +
      2 * 2 * static_cast<double>(read->batch) * static_cast<double>(read->heads) * static_cast<double>(read->head_dim);
  try {
    prediction.microseconds = to_microseconds(gpu.decode_attention(work, L2State::warm).duration);
  } catch (const InputError&) {
    // No kernel of this framework on this GPU serves the shape: counted as refused.
  }
  return prediction;
}

}  // namespace

const std::vector<std::string>& measured_operations() {
  static const std::vector<std::string> operations{"decode_attn", "prefill_attn", "mla_decode",       "gemm",
                                                   "quantize",    "comm",         "compressed_decode"};
  return operations;
}

MeasuredFile parse_measured_file_name(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string stem = file.stem().string();
  if (file.extension() == ".csv") {
    for (const std::string& operation : measured_operations()) {
      if (stem.size() > operation.size() + 1 && stem.ends_with("_" + operation)) {
        return {stem.substr(0, stem.size() - operation.size() - 1), operation};
      }
    }
  }
  throw InputError(fmt::format("{}: expected a name <gpu>_<operation>.csv with one of the operations {}", path,
                               fmt::join(measured_operations(), ", ")));
}

std::optional<DecodeAttentionWork> decode_attention_row(const GpuProfile& profile, const config::CsvTable& table,
                                                        std::size_t row) {
  const std::optional<AttentionRow> read = read_attention(table, row);
  if (!read) return std::nullopt;
  return work_of(profile, *read, table.text(row, "framework"));
}

RowPrediction predict_row(Gpu& gpu, const std::string& operation, const config::CsvTable& table, std::size_t row) {
  if (operation == "decode_attn") return predict_attention(gpu, table, row);
  if (operation == "comm") return predict_comm(gpu, table, row);
  if (operation == "prefill_attn") return predict_prefill_row(gpu, table, row);
  if (operation == "quantize") return predict_quantize_row(gpu, table, row);
  if (operation == "gemm") return predict_gemm_row(gpu, table, row);
  if (operation == "mla_decode") return predict_mla_decode(gpu, table, row);
  if (operation == "compressed_decode") return predict_compressed_decode(gpu, table, row);
  return {};
}

}  // namespace kvtide::gpu
