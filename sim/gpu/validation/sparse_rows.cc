#include "gpu/validation/sparse_rows.h"

#include <map>
#include <tuple>

#include "base/error.h"
#include "gpu/sparse_crossover.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kLongest = 131072;  // of the published comparison
constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;
constexpr std::int64_t kMaxHeads = 65536;
constexpr double kFactor = 2;

/// The setting of a row; false where the row has no indexer or holds a format without a dense counterpart.
bool read_setting(const config::CsvTable& table, std::size_t row, SparseSetting& setting) {
  static const std::map<std::string, double> weights{{"bfloat16", 2}, {"float16", 2}, {"fp8", 1}, {"fp8_block", 1}};
  const auto weight = weights.find(table.text(row, "gemm_type"));
  if (table.text(row, "op") != "dsa" || weight == weights.end() ||
      table.text(row, "kernel").find("_skip_") != std::string::npos) {
    return false;
  }
  setting.framework = table.text(row, "framework");
  setting.model = table.text(row, "model");
  setting.batch = table.integer(row, "batch", 1, kMaxCount);
  setting.num_heads = table.integer(row, "heads", 1, kMaxHeads);
  setting.weight_bytes_per_element = weight->second;
  setting.kv_bits = table.text(row, "kv_dtype").starts_with("fp8") ? 8 : 16;
  return true;
}

using SettingKey = std::tuple<std::string, std::string, std::int64_t, std::int64_t, double, std::int64_t>;

SettingKey key_of(const SparseSetting& setting) {
  return {setting.framework, setting.model, setting.batch, setting.num_heads, setting.weight_bytes_per_element,
          setting.kv_bits};
}

}  // namespace

const std::vector<std::int64_t>& crossover_batches() {
  static const std::vector<std::int64_t> batches{1, 16, 64};
  return batches;
}

std::vector<CrossoverGroup> check_crossovers(const std::vector<std::string>& files, Fidelity fidelity) {
  std::vector<CrossoverGroup> groups;
  for (const std::string& path : files) {
    const MeasuredFile file = parse_measured_file_name(path);
    if (file.operation != "compressed_decode") continue;
    Gpu gpu(load_gpu_profile(file.gpu), fidelity);
    const config::CsvTable table = config::CsvTable::load(path);
    std::map<std::string, CrossoverGroup> by_framework;
    std::map<SettingKey, double> crossovers;
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      SparseSetting setting;
      if (!read_setting(table, row, setting)) continue;
      const double context = static_cast<double>(table.integer(row, "kv_len", 1, kMaxCount));
      const double measured = table.number(row, "latency_us", 0, 1e12);
      try {
        const auto [known, is_new] = crossovers.try_emplace(key_of(setting), 0);
        if (is_new) known->second = sparse_crossover(gpu, setting, kMaxCount);
        CrossoverGroup& group = by_framework[setting.framework];
        ++group.rows;
        const bool is_above = context >= kFactor * known->second, is_below = context * kFactor <= known->second;
        if (!is_above && !is_below) continue;
        ++group.decided;
        const double dense = to_microseconds(dense_module_time(gpu, setting, static_cast<std::int64_t>(context)));
        if ((measured < dense) != is_above) ++group.wrong;
      } catch (const InputError&) {
        // A model, module or latent kernel that is not known: no comparison.
      }
    }
    for (auto& [framework, group] : by_framework) {
      group.gpu = file.gpu;
      group.framework = framework;
      for (const std::int64_t batch : crossover_batches()) {
        group.crossovers.push_back(
            sparse_crossover(gpu, {.framework = framework, .batch = batch, .kv_bits = 8}, kLongest));
      }
      groups.push_back(group);
    }
  }
  return groups;
}

}  // namespace kvtide::gpu
