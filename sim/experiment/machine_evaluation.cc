#include "experiment/machine_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiment/loss_evaluation.h"
#include "experiment/served_decode.h"
#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

/// Mean over the last whole block of steps, so that each compression weighs as it comes.
double mean_step_us(const std::vector<gpu::DecodeStepRecord>& records, std::int64_t block_size) {
  const auto count = std::min<std::size_t>(records.size(), static_cast<std::size_t>(block_size));
  double sum = 0;
  for (std::size_t index = records.size() - count; index < records.size(); ++index)
    sum += to_microseconds(records[index].duration);
  return sum / static_cast<double>(count);
}

Bytes bytes_at(const Run& run, const kv::Compression& setting, const Model& model, const kv::RecordedScores& scores,
               std::int64_t num_positions) {
  return kv::sequence_bytes(kv::serve(model, setting, scores, num_positions), run.setting.page_size, run.setting.layout)
      .total;
}

/// Longest context at which `batch` sequences fit, by bisection; page rounding makes bytes monotone in steps.
std::int64_t max_context(const Run& run, const kv::Compression& setting, const Model& model,
                         const kv::RecordedScores& scores, Bytes capacity) {
  const auto fits = [&](std::int64_t tokens) {
    return bytes_at(run, setting, model, scores, tokens + kv::mean_padding(setting)) /
               static_cast<Bytes>(cache_division(model, run.setting)) <=
           capacity / static_cast<Bytes>(run.setting.batch);
  };
  std::int64_t low = 0;
  std::int64_t high = std::max<std::int64_t>(model.max_positions, run.setting.context_tokens);
  if (fits(high)) return high;
  while (high - low > run.setting.page_size) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

void add_memory(const Run& run, const kv::Compression& setting, const Model& model, const gpu::Gpu& gpu,
                const kv::RecordedScores& scores, RunResult& result) {
  const std::int64_t context = run.setting.context_tokens;
  // Padding is stored like any token; its length is that of the mean prefix.
  const kv::ServedCache served = kv::serve(model, setting, scores, context + kv::mean_padding(setting));
  const Bytes full = bytes_at(run, kv::Compression{}, model, scores, context);
  const Bytes compressed = kv::sequence_bytes(served, run.setting.page_size, run.setting.layout).total;
  if (served.is_arbitrary) {
    result.warnings.push_back(fmt::format(
        "the trace has no free block of {} positions: which served blocks stay is arbitrary", setting.block_size));
  }
  const Bytes capacity = kv_capacity(gpu.profile(), weight_bytes_per_gpu(model, run.setting));
  const auto division = static_cast<double>(cache_division(model, run.setting));
  const auto sequences = [capacity, division](Bytes bytes) {
    return bytes == 0 ? 0.0 : std::floor(static_cast<double>(capacity) * division / static_cast<double>(bytes));
  };
  auto& numbers = result.numbers;
  numbers["weight_bytes_per_gpu"] = static_cast<double>(weight_bytes_per_gpu(model, run.setting));
  numbers["kv_bytes_full"] = static_cast<double>(full);
  numbers["kv_bytes"] = static_cast<double>(compressed);
  numbers["memory_saving"] = 1 - static_cast<double>(compressed) / static_cast<double>(full);
  numbers["bytes_per_token"] = static_cast<double>(compressed) / static_cast<double>(context);
  // Layers are prefilled one after another: all but the one at hand are compressed already.
  numbers["peak_bytes"] = setting.stages.empty() ? static_cast<double>(full)
                                                 : static_cast<double>(compressed) +
                                                       (static_cast<double>(full) - static_cast<double>(compressed)) /
                                                           static_cast<double>(model.num_layers);
  numbers["max_sequences_full"] = sequences(full);
  numbers["max_sequences"] = sequences(compressed);
  numbers["max_context_tokens_full"] =
      static_cast<double>(max_context(run, kv::Compression{}, model, scores, capacity));
  numbers["max_context_tokens"] = static_cast<double>(max_context(run, setting, model, scores, capacity));
  if (setting.partition.kind == kv::PartitionKind::overlap) {
    kv::Compression apart = setting;
    apart.partition.kind = kv::PartitionKind::fixed;
    apart.grid_offset = 0;
    const auto alone = static_cast<double>(bytes_at(run, apart, model, scores, context));
    const double extra = static_cast<double>(compressed) - alone;
    const double held =
        static_cast<double>(model.weight_bytes() + kOverheadBytes) + alone * static_cast<double>(run.setting.batch);
    numbers["overlap_share_full"] = extra / static_cast<double>(full);
    numbers["overlap_share_compressed"] = extra / alone;
    numbers["overlap_share_gpu"] = extra * static_cast<double>(run.setting.batch) / held;
  }
  const double needed = static_cast<double>(compressed) * static_cast<double>(run.setting.batch) / division;
  if (needed > static_cast<double>(capacity)) {
    result.warnings.push_back(fmt::format("batch {} does not fit: its KV needs {} of a GPU, available {}",
                                          run.setting.batch, format_bytes(needed),
                                          format_bytes(static_cast<double>(capacity))));
  }
  if (const Bytes reach = gpu.profile().tlb_reach; reach > 0 && needed > static_cast<double>(reach)) {
    result.warnings.push_back(
        fmt::format("batch {} needs {} of KV on a GPU, beyond the {} its TLB reaches: page misses are not modelled",
                    run.setting.batch, format_bytes(needed), format_bytes(static_cast<double>(reach))));
  }
}

void add_time(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
              const kv::RecordedScores& scores, RunResult& result) {
  const std::int64_t steps = num_decode_steps(setting, run.setting.context_tokens);
  const SteppedDecode compressed = step_through(run, setting, model, gpu, scores, steps);
  const SteppedDecode full = step_through(run, kv::Compression{}, model, gpu, scores, 1);
  auto& numbers = result.numbers;
  numbers["decode_step_us_full"] = mean_step_us(full.records, 1);
  numbers["decode_step_us"] = mean_step_us(compressed.records, setting.block_size);
  numbers["decode_speedup"] = numbers["decode_step_us_full"] / numbers["decode_step_us"];
  double compress_us = 0;
  for (const gpu::DecodeStepRecord& record : compressed.records)
    compress_us += to_microseconds(record.compress_duration);
  numbers["compress_us_per_block"] =
      compressed.compressed_blocks == 0
          ? 0.0
          : compress_us / static_cast<double>(compressed.compressed_blocks * run.setting.batch);
  const gpu::DecodeStepRecord& last = full.records.back();
  double collective_us = 0;
  for (const gpu::DecodeStepRecord& record : compressed.records)
    collective_us += to_microseconds(record.collective_duration);
  numbers["collective_us"] = collective_us / static_cast<double>(compressed.records.size());
  numbers["kv_bound"] = last.attention_duration * 2 > last.duration ||
                                numbers["max_sequences_full"] < static_cast<double>(run.setting.batch) * 2
                            ? 1
                            : 0;

  std::vector<std::int64_t> positions;
  std::vector<double> step_us;
  std::vector<double> compression_us;
  std::vector<double> attention_us;
  std::vector<double> start_us;
  std::vector<double> hbm_bytes;
  std::vector<double> bandwidth;
  for (const gpu::DecodeStepRecord& record : compressed.records) {
    positions.push_back(compressed.first_position + record.step_index);
    start_us.push_back(to_microseconds(record.start));
    step_us.push_back(to_microseconds(record.duration));
    compression_us.push_back(to_microseconds(record.compress_duration));
    attention_us.push_back(to_microseconds(record.attention_duration));
    hbm_bytes.push_back(static_cast<double>(record.hbm_bytes));
    bandwidth.push_back(static_cast<double>(record.hbm_bytes) / to_seconds(record.duration));
  }
  result.dimensions.push_back({"machine/decode_step", positions, "Context length at this decode step", "token"});
  const auto add = [&result](const char* name, std::vector<double> values, const char* long_name, const char* units) {
    result.arrays.push_back(
        {fmt::format("machine/{}", name), std::move(values), {"machine/decode_step"}, long_name, units});
  };
  add("start_us", start_us, "Simulated time at which the step begins", "us");
  add("step_us", step_us, "Duration of the decode step, compression included", "us");
  add("compress_us", compression_us, "Time of compression kernels in the step", "us");
  add("attention_us", attention_us, "Time of attention kernels in the step", "us");
  add("hbm_bytes", hbm_bytes, "Bytes moved between L2 and device memory in the step", "B");
  add("achieved_bandwidth", bandwidth, "hbm_bytes / step duration", "B/s");
}

}  // namespace

Bytes kv_capacity(const gpu::GpuProfile& profile, Bytes weight_bytes) {
  const auto usable = static_cast<Bytes>(static_cast<double>(profile.reported_bytes) * kUsableMemoryShare);
  const Bytes taken = weight_bytes + kOverheadBytes;
  return usable > taken ? usable - taken : 0;
}

void evaluate_machine(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result) {
  if (run.setting.measure.memory) add_memory(run, setting, model, gpu, scores, result);
  if (run.setting.measure.time) add_time(run, setting, model, gpu, scores, result);
}

}  // namespace kvtide::experiment
