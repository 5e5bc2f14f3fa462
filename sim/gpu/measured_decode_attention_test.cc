// The decode-attention model against kernel times measured on real GPUs (aiconfigurator-core 0.12.0 tables, NVIDIA,
// Apache-2.0). The rows replay one CUDA graph on the same buffers, so KV below the L2's capacity is served warm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "gpu/constant_rate_memory.h"
#include "gpu/gpu.h"

namespace kvtide::gpu {
namespace {

struct Row {
  std::string framework, kernel, kv_dtype;
  std::int64_t batch = 0, kv_len = 0, heads = 0, kv_heads = 0, head_dim = 0, window = 0;
  double latency_us = 0;
};

std::vector<Row> read_rows(const std::string& path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    std::stringstream fields(line);
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (cells.size() != 11) continue;
    rows.push_back({cells[0], cells[1], cells[9], std::stoll(cells[2]), std::stoll(cells[3]), std::stoll(cells[4]),
                    std::stoll(cells[5]), std::stoll(cells[6]), std::stoll(cells[7]), std::stod(cells[10])});
  }
  return rows;
}

/// K and V of every (sequence, KV head), pages of 16 tokens.
DecodeAttentionWork work_of(const Row& row) {
  const std::int64_t entries = row.window > 0 ? std::min(row.window, row.kv_len) : row.kv_len;
  const Bytes entry_bytes = static_cast<Bytes>(row.head_dim) * (row.kv_dtype == "fp8" ? 1 : 2);
  const PageStream stream{static_cast<Bytes>(entries) * entry_bytes, 16 * entry_bytes};
  DecodeAttentionWork work;
  work.tasks.push_back({.streams = {stream, stream}, .num_entries = entries, .count = row.batch * row.kv_heads});
  work.query_heads_per_task = row.heads / row.kv_heads;
  work.head_dim = row.head_dim;
  work.math_bits = row.kv_dtype == "fp8" ? 8 : 16;
  return work;
}

double kv_bytes(const Row& row) {
  double bytes = 0;
  for (const AttentionTask& task : work_of(row).tasks) {
    for (const PageStream& stream : task.streams)
      bytes += static_cast<double>(stream.bytes) * static_cast<double>(task.count);
  }
  return bytes;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Read-only streams reach 94 % of the pins on this GPU (best big rows of the same tables; A100 PCIe-class cards
/// .92-.96).
Gpu h100() {
  GpuProfile profile = load_gpu_profile("h100-sxm");
  auto memory = std::make_unique<ConstantRateMemory>(profile.bandwidth, 0.94);
  return {std::move(profile), std::move(memory)};
}

class MeasuredDecodeAttention : public testing::Test {
 protected:
  void SetUp() override {
    rows_ = read_rows(KVTIDE_SOURCE_DIR "/../shared/data/measured/h100_sxm_decode_attn.csv");
    if (rows_.empty()) GTEST_SKIP() << "../shared/data/measured/h100_sxm_decode_attn.csv is not here";
  }
  std::vector<Row> rows_;
};

// The profile's default kernel is FlashAttention-3; rows of other kernels are other machines.
TEST_F(MeasuredDecodeAttention, FlashAttention3OnH100) {
  Gpu gpu = h100();
  std::vector<double> all, big;
  std::map<std::string, std::vector<double>> octaves;
  for (const Row& row : rows_) {
    if (row.kernel != "vllm_flash_attn_fa3") continue;
    const double predicted = to_microseconds(gpu.decode_attention(work_of(row), L2State::warm).duration);
    const double error = std::abs(predicted / row.latency_us - 1) * 100;
    all.push_back(error);
    if (kv_bytes(row) >= 4.0 * static_cast<double>(gpu.profile().l2_bytes)) big.push_back(error);
    octaves[fmt::format("{} 2^{:+03d} MiB", row.kv_dtype,
                        static_cast<int>(std::floor(std::log2(kv_bytes(row) / (1 << 20)))))]
        .push_back(error);
  }
  ASSERT_GT(all.size(), 1000u);
  ASSERT_GT(big.size(), 200u);
  fmt::print(
      "fa3 on h100-sxm, absolute percentage error: {} rows, median {:.1f}, p90 {:.1f}; {} rows of >= 4 x L2, median "
      "{:.1f}, "
      "p90 {:.1f}\n",
      all.size(), quantile(all, 0.5), quantile(all, 0.9), big.size(), quantile(big, 0.5), quantile(big, 0.9));
  for (const auto& [name, errors] : octaves)
    fmt::print("  {}: {} rows, median {:.1f}\n", name, errors.size(), quantile(errors, 0.5));
  EXPECT_LE(quantile(all, 0.5), 10);
  EXPECT_LE(quantile(big, 0.5), 6);
}

}  // namespace
}  // namespace kvtide::gpu
