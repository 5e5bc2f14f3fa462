#include "experiment/machine_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiment/last_within.h"
#include "experiment/loss_evaluation.h"
#include "experiment/served_decode.h"
#include "experiment/served_engine.h"
#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

/// Mean over the last whole period of steps, so that each compression weighs as it comes.
double mean_step_us(const std::vector<gpu::DecodeStepRecord>& records, std::int64_t period) {
  const auto count = std::min<std::size_t>(records.size(), static_cast<std::size_t>(period));
  double sum = 0;
  for (std::size_t index = records.size() - count; index < records.size(); ++index)
    sum += to_microseconds(records[index].duration);
  return sum / static_cast<double>(count);
}

/// What memory must have room for: with a decode target the cache just before it is compressed.
kv::ServedCache held_cache(const Run& run, const kv::Compression& setting, const Model& model,
                           const kv::RecordedScores& scores, std::int64_t num_positions) {
  const Setting& asked = run.setting;
  if (asked.schedule.decode_target == 0) return kv::serve(model, setting, scores, num_positions, asked.sharing);
  const std::int64_t appended = std::min(asked.schedule.decode_every, num_positions - 1);
  kv::CacheTimeline cache(
      {model, setting, asked.page_size, asked.layout, 1, asked.schedule, asked.sharing, asked.loss.score_window},
      scores, num_positions - appended);
  for (std::int64_t step = 0; step < appended; ++step) (void)cache.append();
  return cache.held();
}

Bytes bytes_at(const Run& run, const kv::Compression& setting, const Model& model, const kv::RecordedScores& scores,
               std::int64_t num_positions) {
  return kv::sequence_bytes(held_cache(run, setting, model, scores, num_positions), run.setting.page_size,
                            run.setting.layout)
      .total;
}

/// Bytes over the steps of one period of a decode target, each counted once; evenly spaced ones of a long period.
double mean_decode_bytes(const Run& run, const kv::Compression& setting, const Model& model,
                         const kv::RecordedScores& scores, std::int64_t num_positions) {
  constexpr std::int64_t kMostSamples = 256;
  const Setting& asked = run.setting;
  const std::int64_t every = asked.schedule.decode_every;
  const std::int64_t stride = ceil_div(every, kMostSamples);
  kv::CacheTimeline cache(
      {model, setting, asked.page_size, asked.layout, 1, asked.schedule, asked.sharing, asked.loss.score_window},
      scores, std::max<std::int64_t>(1, num_positions - every));
  double sum = 0, count = 0;
  for (std::int64_t step = 1; step <= every; ++step) {
    (void)cache.append();
    if (step % stride != 0 && step != every) continue;
    sum += static_cast<double>(kv::sequence_bytes(cache.held(), asked.page_size, asked.layout).total);
    count += 1;
  }
  return sum / count;
}

/// Longest context, in whole pages, at which `batch` sequences fit. Bytes swing within a block, whose open part is stored
/// whole: one page more does not fit, a length within the next block may.
std::int64_t max_context(const Run& run, const kv::Compression& setting, const Model& model,
                         const kv::RecordedScores& scores, Bytes capacity) {
  const auto bytes = [&](std::int64_t tokens) {
    const kv::ServedCache cache = held_cache(run, setting, model, scores, tokens + kv::mean_padding(setting));
    return static_cast<Bytes>(fullest_gpu_bytes(cache, model, run.setting));
  };
  const Bytes limit = capacity / static_cast<Bytes>(run.setting.batch);
  const std::int64_t most = std::max<std::int64_t>(model.max_positions, run.setting.context_tokens);
  const Bytes most_bytes = bytes(most);
  if (most_bytes <= limit) return most;
  const std::int64_t page = run.setting.page_size;
  return page * last_within(limit, ceil_div(most, page), most_bytes,
                            [&](std::int64_t num_pages) { return bytes(num_pages * page); });
}

/// Largest cache from the first prompt token on. Whole prompts are prefilled layer by layer: all but the one at hand are
/// compressed already. In chunks the policy runs between steps: what earlier chunks left, and one chunk in every layer.
/// What is left grows with the prompt, so that the largest moment is among the last chunks.
/// Example: 1,024 tokens, half kept, chunks of 256: 384 + 256 = 640 tokens; whole, 32 layers: 512 + 512 / 32 = 528.
double peak_bytes(const Run& run, const kv::Compression& setting, const Model& model, const kv::RecordedScores& scores,
                  Bytes full, Bytes compressed) {
  constexpr std::int64_t kLastChunks = 16;
  const Setting& asked = run.setting;
  const auto bytes = [&](const kv::Compression& of, std::int64_t tokens) {
    if (tokens == 0) return 0.0;
    const kv::ServedCache cache =
        kv::serve(model, kv::at_target(of, asked.schedule, tokens), scores, tokens, asked.sharing);
    return static_cast<double>(kv::sequence_bytes(cache, asked.page_size, asked.layout).total);
  };
  const std::int64_t context = asked.context_tokens;
  const auto held = static_cast<double>(compressed);
  if (setting.stages.empty()) {
    // Merging needs both layers, sharing has never more than it keeps.
    return asked.sharing.merges ? held + (static_cast<double>(full) - held) / static_cast<double>(model.num_layers)
           : asked.sharing.is_on() || asked.sharing.window > 0 ? held
                                                               : static_cast<double>(full);
  }
  const std::int64_t chunk = asked.schedule.prefill_chunk;
  if (chunk == 0) {
    const double kept = asked.schedule.decode_target > 0 ? bytes(setting, context) : held;
    return std::max(held, kept + (static_cast<double>(full) - kept) / static_cast<double>(model.num_layers));
  }
  double peak = held;
  const std::int64_t last = (context - 1) / chunk;
  for (std::int64_t index = std::max<std::int64_t>(0, last - kLastChunks + 1); index <= last; ++index) {
    const std::int64_t before = index * chunk;
    kv::Compression whole = setting;
    whole.stages.clear();
    const kv::ServedCache added = kv::serve(model, whole, scores, std::min(chunk, context - before), asked.sharing);
    peak = std::max(peak, bytes(setting, before) +
                              static_cast<double>(kv::sequence_bytes(added, asked.page_size, asked.layout).total));
  }
  return peak;
}

/// Of the asked batch, else of the one that fits, whose step is timed too.
/// @param gpu_bytes  of a sequence, on the fullest GPU
void warn_of_page_misses(const Run& run, double gpu_bytes, const gpu::GpuProfile& profile, RunResult& result) {
  const auto reach = static_cast<double>(profile.tlb_reach);
  const auto warn_beyond = [&](const char* what, double sequences) {
    const double needed = gpu_bytes * sequences;
    if (reach == 0 || needed <= reach) return false;
    result.warnings.push_back(
        fmt::format("{} {:.0f} needs {} of KV on a GPU, beyond the {} its TLB reaches: page misses are not modelled",
                    what, sequences, format_bytes(needed), format_bytes(reach)));
    return true;
  };
  if (!warn_beyond("batch", static_cast<double>(run.setting.batch)) && run.setting.measure.time)
    (void)warn_beyond("max_sequences", result.numbers.at("max_sequences"));
}

void add_memory(const Run& run, const kv::Compression& setting, const Model& model, const gpu::Gpu& gpu,
                const kv::RecordedScores& scores, RunResult& result) {
  const std::int64_t context = run.setting.context_tokens;
  // Padding is stored like any token; its length is that of the mean prefix.
  const kv::ServedCache served = held_cache(run, setting, model, scores, context + kv::mean_padding(setting));
  const Run plain = uncompressed(run);
  const kv::ServedCache whole = held_cache(plain, kv::Compression{}, model, scores, context);
  const Bytes full = kv::sequence_bytes(whole, run.setting.page_size, run.setting.layout).total;
  const Bytes compressed = kv::sequence_bytes(served, run.setting.page_size, run.setting.layout).total;
  if (served.is_arbitrary) {
    result.warnings.push_back(fmt::format(
        "the trace has no free block of {} positions: which served blocks stay is arbitrary", setting.block_size));
  }
  const Bytes capacity = kv_capacity(run, model, gpu.profile());
  const double of_gpu = fullest_gpu_bytes(served, model, run.setting);
  const auto sequences = [capacity](double gpu_bytes) {
    return gpu_bytes == 0 ? 0.0 : std::floor(static_cast<double>(capacity) / gpu_bytes);
  };
  auto& numbers = result.numbers;
  numbers["weight_bytes_per_gpu"] = static_cast<double>(weight_bytes_per_gpu(model, run.setting));
  numbers["kv_bytes_full"] = static_cast<double>(full);
  numbers["kv_bytes"] = static_cast<double>(compressed);
  numbers["memory_saving"] = 1 - static_cast<double>(compressed) / static_cast<double>(full);
  numbers["bytes_per_token"] = static_cast<double>(compressed) / static_cast<double>(context);
  numbers["peak_bytes"] = peak_bytes(run, setting, model, scores, full, compressed);
  if (run.setting.schedule.decode_target > 0)
    numbers["decode_bytes_mean"] = mean_decode_bytes(run, setting, model, scores, context);
  numbers["max_sequences_full"] = sequences(fullest_gpu_bytes(whole, model, run.setting));
  numbers["max_sequences"] = sequences(of_gpu);
  numbers["max_context_tokens_full"] =
      static_cast<double>(max_context(plain, kv::Compression{}, model, scores, capacity));
  numbers["max_context_tokens"] = static_cast<double>(max_context(run, setting, model, scores, capacity));
  if (setting.partition.kind == kv::PartitionKind::overlap) {
    kv::Compression apart = setting;
    apart.partition.kind = kv::PartitionKind::fixed;
    apart.grid_offset = 0;
    const auto alone = static_cast<double>(bytes_at(run, apart, model, scores, context));
    const double extra = static_cast<double>(compressed) - alone;
    const double held = static_cast<double>(model.weight_bytes(run.setting.weights) + kOverheadBytes) +
                        alone * static_cast<double>(run.setting.batch);
    numbers["overlap_share_full"] = extra / static_cast<double>(full);
    numbers["overlap_share_compressed"] = extra / alone;
    numbers["overlap_share_gpu"] = extra * static_cast<double>(run.setting.batch) / held;
  }
  const double needed = of_gpu * static_cast<double>(run.setting.batch);
  numbers["gpu_memory_bytes"] = static_cast<double>(gpu.profile().reported_bytes);
  numbers["kv_capacity_bytes"] = static_cast<double>(capacity);
  numbers["kv_batch_bytes"] = needed;
  if (needed > static_cast<double>(capacity)) {
    result.warnings.push_back(fmt::format("batch {} does not fit: its KV needs {} of a GPU, available {}",
                                          run.setting.batch, format_bytes(needed),
                                          format_bytes(static_cast<double>(capacity))));
  }
  warn_of_page_misses(run, of_gpu, gpu.profile(), result);
}

struct PeriodMeans {
  double step_us = 0;
  double compress_us = 0;  ///< of all sequences, of the compressions seen
};

/// From simulated steps, a whole period among them.
PeriodMeans means_of_steps(const std::vector<gpu::DecodeStepRecord>& records, std::int64_t period) {
  PeriodMeans means{.step_us = mean_step_us(records, period)};
  for (const gpu::DecodeStepRecord& record : records) means.compress_us += to_microseconds(record.compress_duration);
  return means;
}

/// From two steps, a compression in the second. Approximation: from one compression to the next a step grows linearly with
/// what is appended, so the mean is that of the longest step, before it, and the shortest, with it.
PeriodMeans means_around(const std::vector<gpu::DecodeStepRecord>& two, std::int64_t period) {
  const gpu::DecodeStepRecord& before = two[0];
  const gpu::DecodeStepRecord& with = two[1];
  const double decode_us = to_microseconds(before.duration - before.compress_duration) +
                           to_microseconds(with.duration - with.compress_duration);
  // Before it, only what leaves a residual one by one is compressed.
  const double compress_us = to_microseconds(before.compress_duration) * static_cast<double>(period - 1) +
                             to_microseconds(with.compress_duration);
  return {decode_us / 2 + compress_us / static_cast<double>(period), compress_us};
}

/// As many sequences as fit, where memory was measured and one does, else 0.
std::int64_t fitting_batch(const RunResult& result, const std::string& column) {
  const auto most = result.numbers.find(column);
  return most == result.numbers.end() ? 0 : static_cast<std::int64_t>(most->second);
}

/// Example: 12 sequences, 18 ms a step, on 2 GPUs: 12 / 0.018 / 2 = 333 tokens/s on each.
void add_fitting_step(const Run& run, std::int64_t batch, double step_us, const std::string& suffix,
                      RunResult& result) {
  const std::int64_t num_gpus = run.setting.tensor_parallel * run.setting.pipeline_parallel;
  result.numbers["max_sequences_step_us" + suffix] = step_us;
  result.numbers["max_sequences_tokens_per_s_per_gpu" + suffix] =
      static_cast<double>(batch) / (step_us * 1e-6) / static_cast<double>(num_gpus);
}

void add_time(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
              const kv::RecordedScores& scores, RunResult& result) {
  const std::int64_t steps = num_decode_steps(setting, run.setting.schedule, run.setting.context_tokens);
  const std::int64_t fitting = fitting_batch(result, "max_sequences");
  const std::int64_t fitting_full = fitting_batch(result, "max_sequences_full");
  const SteppedDecode compressed = step_through(run, setting, model, gpu, scores, steps, {}, fitting);
  const Run plain = uncompressed(run);
  const SteppedDecode full = step_through(plain, kv::Compression{}, model, gpu, scores, 1, {}, fitting_full);
  const std::int64_t period = compression_period(setting, run.setting.schedule);
  std::optional<SteppedDecode> around;
  if (period > steps) around = step_into_compression(run, setting, model, gpu, scores, fitting);
  const auto means = [&](std::vector<gpu::DecodeStepRecord> SteppedDecode::*records) {
    return around ? means_around((*around).*records, period) : means_of_steps(compressed.*records, period);
  };
  // A period ends at the context: its steps are of shorter contexts, which are quicker without compression, too.
  Run beside = plain;
  if (around) beside.setting.context_tokens = around->first_position + 1;
  const std::int64_t num_same = around ? 2 : std::min(period, steps);
  const SteppedDecode same = step_through(beside, kv::Compression{}, model, gpu, scores, num_same, {}, fitting);
  const auto speedup = [&](const PeriodMeans& of, std::vector<gpu::DecodeStepRecord> SteppedDecode::*records) {
    return mean_step_us(same.*records, num_same) / of.step_us;
  };
  const PeriodMeans own = means(&SteppedDecode::records);
  const std::int64_t blocks = (around ? *around : compressed).compressed_blocks * run.setting.batch;
  auto& numbers = result.numbers;
  numbers["decode_step_us_full"] = mean_step_us(full.records, 1);
  numbers["decode_speedup"] = speedup(own, &SteppedDecode::records);
  numbers["decode_step_us"] = numbers["decode_step_us_full"] / numbers["decode_speedup"];
  if (run.setting.schedule.recall > 0)
    numbers["recall_us"] = to_microseconds(compressed.recall_duration) / static_cast<double>(steps);
  numbers["compress_us_per_block"] = blocks == 0 ? 0 : own.compress_us / static_cast<double>(blocks);
  if (fitting > 0) {
    const auto records = &SteppedDecode::other_records;
    const SteppedDecode at_context =
        around ? step_through(plain, kv::Compression{}, model, gpu, scores, 1, {}, fitting) : same;
    add_fitting_step(run, fitting, mean_step_us(at_context.*records, 1) / speedup(means(records), records), "", result);
  }
  if (fitting_full > 0) add_fitting_step(run, fitting_full, mean_step_us(full.other_records, 1), "_full", result);
  const gpu::DecodeStepRecord& last = full.records.back();
  double collective_us = 0;
  for (const gpu::DecodeStepRecord& record : compressed.records)
    collective_us += to_microseconds(record.collective_duration);
  numbers["collective_us"] = collective_us / static_cast<double>(compressed.records.size());
  const bool is_tight = run.setting.measure.memory && fitting_full < run.setting.batch * 2;
  numbers["kv_bound"] = is_tight || last.attention_duration * 2 > last.duration ? 1 : 0;

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

Bytes kv_capacity(const Run& run, const Model& model, const gpu::GpuProfile& profile) {
  if (!run.setting.serving) {
    const auto usable = static_cast<Bytes>(static_cast<double>(profile.reported_bytes) * kUsableMemoryShare);
    const Bytes taken = weight_bytes_per_gpu(model, run.setting) + kOverheadBytes;
    return usable > taken ? usable - taken : 0;
  }
  const serving::MemoryAccount account = memory_account(run, model, profile, 1.0);
  const std::int64_t given = run.setting.serving->num_blocks;
  const double bytes = given > 0 ? static_cast<double>((given - 1) * account.block_size) * account.kv_bytes_per_token
                                 : account.kv_bytes();
  return static_cast<Bytes>(std::max(0.0, bytes));
}

void evaluate_machine(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result) {
  if (run.setting.measure.memory) add_memory(run, setting, model, gpu, scores, result);
  if (run.setting.measure.time) add_time(run, setting, model, gpu, scores, result);
}

}  // namespace kvtide::experiment
