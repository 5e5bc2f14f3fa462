#include "gpu/decode_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "gpu/block_dispatch.h"
#include "gpu/memory_traffic.h"
#include "gpu/mla_decode.h"
#include "gpu/split_rule.h"
#include "gpu/stream_kernel.h"

namespace kvtide::gpu {
namespace {

// Instructions of one CUDA-core lane to turn a packed integer into a 16-bit operand: per pair of elements one extract
// (lop3), one packed subtract of the zero point, one packed multiply by the scale and half a shift, 3.5 / 2, rounded
// up.
constexpr double kDequantizeOperations = 2;
constexpr double kFlopsPerLaneOperation = 2;  // a profile counts a multiply-add as 2 FLOP
// Blocks and memory slow each other down as both near saturation (time_on_shared_memory). Calibrated on: decode_attn rows
// of aiconfigurator-core 0.12.0, where 4 to 10 fit nearly alike.
constexpr double kOverlap = 6;
constexpr std::int64_t kMaxTasks = std::int64_t{1} << 40;
constexpr double kMaxBytes = 1e18;   // far beyond any device
constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds

/// How the kernel cuts this work.
struct Cut {
  std::int64_t tile_entries = 0;
  std::int64_t blocks_per_task = 1;  ///< before splits: 1, or one per query head or per full tile of query rows
  std::int64_t query_rows = 1;       ///< of one block
  std::int64_t resident_blocks = 1;  ///< that share an SM
  std::int64_t tiles_per_split = 1;
  double block_overhead = 0;  ///< s of a block besides its KV
};

/// Thread blocks of one task group and what binds them.
struct SplitTask {
  BlockGroup blocks;
  std::int64_t num_splits = 1;
  double stream_time = 0;
  double arithmetic_time = 0;
};

/// Rates of one SM in this kernel.
struct SmRates {
  double stream = 0;     ///< B/s
  double tensor = 0;     ///< FLOP/s
  double lanes = 0;      ///< CUDA-core operations/s
  double transpose = 0;  ///< elements/s; infinite when nothing is transposed
};

double task_bytes(const AttentionTask& task) {
  double bytes = 0;
  for (const PageStream& stream : task.streams) bytes += static_cast<double>(stream.bytes);
  return bytes;
}

void check(const GpuProfile& profile, const DecodeAttentionWork& work) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw InputError("decode attention: " + message);
  };
  require(work.head_dim >= 1 && work.head_dim <= 65536,
          fmt::format("head_dim must be in 1..65536, got {}", work.head_dim));
  require(work.query_heads_per_task >= 1 && work.query_heads_per_task <= 65536,
          fmt::format("query_heads_per_task must be in 1..65536, got {}", work.query_heads_per_task));
  require(work.num_sequences >= 0 && work.num_sequences <= kMaxTasks,
          fmt::format("num_sequences must be in 0..{}, got {}", kMaxTasks, work.num_sequences));
  require(work.math_bits == 16 || work.math_bits == 8,
          fmt::format("math_bits must be 16 or 8, got {}", work.math_bits));
  std::int64_t num_tasks = 0;
  double bytes = 0;
  for (const AttentionTask& task : work.tasks) {
    require(task.count >= 0 && task.count <= kMaxTasks - num_tasks,
            fmt::format("task counts must be >= 0 and sum to at most {}, got {}", kMaxTasks, task.count));
    require(task.num_entries >= 0 && task.num_entries <= kMaxTasks,
            fmt::format("num_entries must be in 0..{}, got {}", kMaxTasks, task.num_entries));
    require(task.dequantized_elements >= 0 && task.dequantized_elements <= kMaxBytes && task.reconstruction_macs >= 0 &&
                task.reconstruction_macs <= kMaxBytes,
            fmt::format("dequantized_elements and reconstruction_macs must be in 0..1e18, got {} and {}",
                        task.dequantized_elements, task.reconstruction_macs));
    num_tasks += task.count;
    bytes += task_bytes(task) * static_cast<double>(task.count);
  }
  require(bytes <= kMaxBytes, fmt::format("tasks read {:.3g} B, more than 1e18", bytes));
  require(work.math_bits == 16 || profile.tensor_flops_8bit > 0,
          fmt::format("{} has no 8-bit floating-point tensor cores; store fp8 and compute in 16 bit", profile.name));
}

/// A window that starts inside a tile touches one tile more than its entries fill.
std::int64_t num_tiles(const AttentionTask& task, std::int64_t tile_entries) {
  const std::int64_t filled = std::max<std::int64_t>(1, ceil_div(task.num_entries, tile_entries));
  return filled + (task.hidden_entries > 0 ? 1 : 0);
}

SplitTask split_task(const AttentionTask& task, const DecodeAttentionWork& work, const AttentionKernel& kernel,
                     const SmRates& rates, const Cut& cut) {
  SplitTask result;
  const std::int64_t all_tiles = num_tiles(task, cut.tile_entries);
  const std::int64_t num_splits = ceil_div(all_tiles, cut.tiles_per_split);
  const std::int64_t own_tiles = ceil_div(all_tiles, num_splits);
  // The fullest block holds own_tiles whole tiles, or the task's ragged end when there is only one.
  const double share = std::min(1.0, static_cast<double>(own_tiles * cut.tile_entries) /
                                         static_cast<double>(std::max<std::int64_t>(1, task.num_entries)));
  const double residents = static_cast<double>(cut.resident_blocks);
  // Every resident has its own loads in flight; the arithmetic units are shared.
  result.stream_time = task_bytes(task) * share * static_cast<double>(kernel.blocks_per_sm) / rates.stream;

  const double head_dim = static_cast<double>(work.head_dim);
  const double tile_elements = static_cast<double>(own_tiles * cut.tile_entries) * head_dim;  // of K; as many of V
  const double tensor_flops = 4 * static_cast<double>(kernel.tile_rows(work.head_dim)) * tile_elements +  // q.K and p.V
                              2 * task.reconstruction_macs * share;
  result.arithmetic_time = residents * (tensor_flops / rates.tensor + tile_elements / rates.transpose +
                                        task.dequantized_elements * share * kDequantizeOperations / rates.lanes);
  result.blocks.count = task.count * cut.blocks_per_task * num_splits;
  result.blocks.duration = cut.block_overhead + std::max(result.stream_time, result.arithmetic_time);
  result.num_splits = num_splits;
  return result;
}

SmRates sm_rates(const GpuProfile& profile, const AttentionKernel& kernel, std::int64_t math_bits, double hit_rate) {
  const double num_sms = static_cast<double>(profile.num_sms);
  const bool is_8bit = math_bits == 8;
  SmRates rates;
  // Little's law: what is in flight returns after one latency.
  rates.stream = static_cast<double>(kernel.bytes_in_flight) /
                 (hit_rate * profile.l2_latency + (1 - hit_rate) * profile.memory_latency);
  rates.tensor =
      (is_8bit ? profile.tensor_flops_8bit : profile.tensor_flops_16bit) * kernel.tensor_efficiency / num_sms;
  rates.lanes = profile.cuda_core_flops / kFlopsPerLaneOperation / num_sms;
  rates.transpose = is_8bit ? kernel.transpose_rate : INFINITY;
  return rates;
}

/// The tasks' fp8 entries alone, as 8-bit operands, or the fp16 entries alone.
DecodeAttentionWork part_of(const DecodeAttentionWork& work, bool is_fp8) {
  DecodeAttentionWork part = work;
  if (is_fp8) part.math_bits = 8;
  for (AttentionTask& task : part.tasks) {
    task.num_entries = is_fp8 ? task.fp8_entries : task.num_entries - task.fp8_entries;
    task.fp8_entries = 0;
    task.dequantized_elements = 0;
    std::erase_if(task.streams, [is_fp8](const PageStream& stream) { return stream.is_fp8 != is_fp8; });
  }
  std::erase_if(part.tasks, [](const AttentionTask& task) { return task.num_entries == 0; });
  return part;
}

/// The calls of this work, one unless fp8 and fp16 entries meet.
struct Calls {
  DecodeAttentionWork first;
  DecodeAttentionWork second;  // no tasks: none
};

/// What this GPU's kernels make of latent rows and of fp8 entries. A GPU without a latent kernel takes its first framework.
Calls as_run(const GpuProfile& profile, DecodeAttentionWork work) {
  if (work.is_latent && work.kernel.empty()) work.kernel = latent_framework(profile, "");
  const bool has_fp8 = std::ranges::any_of(work.tasks, [](const AttentionTask& task) { return task.fp8_entries > 0; });
  if (!has_fp8 || profile.tensor_flops_8bit <= 0) return {work, {}};
  DecodeAttentionWork native = part_of(work, true);
  const AttentionKernel* found = profile.find_attention_kernel(work.kernel, native);
  // One asked for by its own name is found whatever it serves.
  if (found == nullptr || !found->scope.serves(native, profile.num_sms)) return {work, {}};
  return {std::move(native), part_of(work, false)};
}

/// Weighs the outputs of two calls by their softmax sums, which both left in L2: 2 B a channel and 4 B a query row of each
/// are read (vLLM, csrc/attention/merge_attn_states.cu).
KernelTime time_merge(const GpuProfile& profile, MemoryModel& memory, const DecodeAttentionWork& work) {
  std::int64_t num_tasks = 0;
  for (const AttentionTask& task : work.tasks) num_tasks += task.count;
  const auto rows = static_cast<Bytes>(num_tasks) * static_cast<Bytes>(work.query_heads_per_task);
  const Bytes output = 2 * rows * static_cast<Bytes>(work.head_dim);
  return time_stream(profile, memory,
                     {.num_blocks = num_tasks,
                      .read_bytes = 2 * (output + 4 * rows),
                      .write_bytes = output,
                      .chunk_bytes = 4096,
                      .input = L2State::warm});
}

/// Sums over a call's tasks before they are split.
struct CallSums {
  std::int64_t num_tasks = 0;
  double bytes = 0;  ///< streamed by one block of each task
  SplitWork uncut;
};

/// How the kernel cuts a task's query heads, and what each block costs besides its KV.
Cut cut_of_queries(const AttentionKernel& kernel, const DecodeAttentionWork& work) {
  Cut cut;
  cut.tile_entries = kernel.tile_entries(work.head_dim);
  if (kernel.shares_kv) {
    const std::int64_t tile_rows = kernel.tile_rows(work.head_dim);
    cut.blocks_per_task = ceil_div(work.query_heads_per_task, tile_rows);
    cut.query_rows = std::min(work.query_heads_per_task, tile_rows);
  } else {
    cut.blocks_per_task = work.query_heads_per_task;
  }
  const double head_dim = static_cast<double>(work.head_dim), query_rows = static_cast<double>(cut.query_rows);
  cut.block_overhead =
      kernel.task_time + kernel.task_time_per_channel * head_dim + kernel.output_time * head_dim * query_rows;
  return cut;
}

CallSums sums_of(const GpuProfile& profile, const AttentionKernel& kernel, const DecodeAttentionWork& work,
                 const Cut& cut) {
  CallSums sums;
  sums.uncut = {.num_sms = profile.num_sms, .blocks_per_sm = kernel.blocks_per_sm, .max_splits = kernel.max_splits};
  sums.uncut.total_tiles = 0;
  for (const AttentionTask& task : work.tasks) {
    if (task.count == 0) continue;
    sums.num_tasks += task.count;
    const std::int64_t tiles = num_tiles(task, cut.tile_entries);
    sums.uncut.num_tiles = std::max(sums.uncut.num_tiles, tiles);
    sums.uncut.total_tiles += static_cast<double>(tiles) * static_cast<double>(task.count * cut.blocks_per_task);
    sums.uncut.num_history = std::max(sums.uncut.num_history, task.num_entries + task.hidden_entries);
    sums.bytes += task_bytes(task) * static_cast<double>(task.count);
  }
  sums.uncut.num_blocks = sums.num_tasks * cut.blocks_per_task;
  return sums;
}

/// Thread blocks of all tasks and what binds them.
struct SplitCall {
  std::vector<BlockGroup> groups;
  double longest_stream = 0;
  double longest_arithmetic = 0;
  double empty_blocks = 0;  ///< launched for splits that a shorter task has no entries for
  std::int64_t most_splits = 1;
};

/// @param num_splits  of the longest task
SplitCall split_tasks(const DecodeAttentionWork& work, const AttentionKernel& kernel, const SmRates& rates,
                      const Cut& cut, std::int64_t num_splits) {
  SplitCall call;
  for (const AttentionTask& task : work.tasks) {
    if (task.count == 0) continue;
    const SplitTask split = split_task(task, work, kernel, rates, cut);
    call.groups.push_back(split.blocks);
    call.most_splits = std::max(call.most_splits, split.num_splits);
    call.empty_blocks += static_cast<double>(task.count * cut.blocks_per_task) *
                         static_cast<double>(std::max<std::int64_t>(0, num_splits - split.num_splits));
    call.longest_stream = std::max(call.longest_stream, split.stream_time);
    call.longest_arithmetic = std::max(call.longest_arithmetic, split.arithmetic_time);
  }
  return call;
}

/// What misses L2, in all and by contiguous run.
struct MissedTraffic {
  double bytes = 0;
  std::vector<Traffic> parts;
};

/// @param num_fetches  times that each byte of a task is asked for
MissedTraffic missed_traffic(const DecodeAttentionWork& work, std::int64_t num_fetches, double hit_rate) {
  MissedTraffic missed;
  for (const AttentionTask& task : work.tasks) {
    if (task.count == 0) continue;
    for (const PageStream& stream : task.streams) {
      const double bytes =
          static_cast<double>(stream.bytes) * static_cast<double>(task.count * num_fetches) * (1 - hit_rate);
      missed.bytes += bytes;
      const auto same = std::ranges::find(missed.parts, stream.chunk_bytes, &Traffic::chunk_bytes);
      if (same == missed.parts.end()) {
        missed.parts.push_back({bytes, stream.chunk_bytes, 0});
      } else {
        same->bytes += bytes;
      }
    }
  }
  return missed;
}

KernelTime time_call(const GpuProfile& profile, MemoryModel& memory, const DecodeAttentionWork& work, L2State l2) {
  check(profile, work);
  const AttentionKernel& kernel = profile.attention_kernel(work.kernel, work);
  Cut cut = cut_of_queries(kernel, work);
  const CallSums sums = sums_of(profile, kernel, work, cut);
  if (sums.num_tasks == 0) return {};
  const double hit_rate =
      l2 == L2State::cold
          ? 0
          : cyclic_hit_rate(sums.bytes, static_cast<double>(profile.l2_bytes) * profile.l2_usable_share);
  const std::int64_t num_splits = split_count(kernel.splits, sums.uncut);
  cut.tiles_per_split = ceil_div(sums.uncut.num_tiles, num_splits);
  cut.resident_blocks =
      std::min(kernel.blocks_per_sm,
               ceil_div(sums.uncut.num_blocks * ceil_div(sums.uncut.num_tiles, cut.tiles_per_split), profile.num_sms));
  const SmRates rates = sm_rates(profile, kernel, work.math_bits, hit_rate);
  const SplitCall call = split_tasks(work, kernel, rates, cut, num_splits);

  // Blocks of one query head each do not run in step: what misses L2 is fetched by each. Tiles of a group's rows are
  // neighbours that start together on the same entries: the first to ask brings them to L2 for the others.
  const MissedTraffic missed = missed_traffic(work, kernel.shares_kv ? 1 : cut.blocks_per_task, hit_rate);
  TrafficTime hbm = traffic_time(profile, memory, missed.parts);
  hbm.seconds /= kernel.memory_share;
  const double l2_time = sums.bytes * static_cast<double>(cut.blocks_per_task) / profile.l2_bandwidth;
  const double memory_time = std::max(hbm.seconds, l2_time);

  // The first wave has nothing to stream until its overhead is over; after that blocks hide it behind each other's loads.
  const std::int64_t num_slots = profile.num_sms * kernel.blocks_per_sm;
  std::vector<SlotsDone> done = dispatch_blocks(call.groups, num_slots);
  const double late = kernel.empty_block_time * call.empty_blocks / static_cast<double>(num_slots) - cut.block_overhead;
  for (SlotsDone& slots : done) {
    if (slots.at > 0) slots.at += late;
  }
  const double waves = done.back().at;
  const double body = time_on_shared_memory(done, memory_time, kOverlap);

  double fixed = profile.graph_launch_latency + kernel.fixed_time +
                 kernel.sequence_time * static_cast<double>(work.num_sequences) + cut.block_overhead;
  if (call.most_splits > 1) {
    fixed += kernel.combine_time + kernel.combine_output_time * static_cast<double>(call.most_splits) *
                                       static_cast<double>(cut.query_rows) * static_cast<double>(work.head_dim);
  }
  if (work.interleaves_groups && work.query_heads_per_task > 1) fixed += kernel.regroup_time;
  const double duration = std::max(profile.host_launch_time, fixed + body);
  if (!(duration < kMaxSeconds)) {
    throw InputError(fmt::format("decode attention: the work takes {:.3g} s, more than a million", duration));
  }

  KernelTime time;
  time.duration = from_seconds(duration);
  time.hbm_bytes = static_cast<Bytes>(std::llround(missed.bytes));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / duration;
  if (std::max(fixed, duration - body) >= body) {
    time.limited_by = "launch";
  } else if (memory_time > waves) {
    time.limited_by = "memory";
  } else {
    time.limited_by = call.longest_stream >= call.longest_arithmetic ? "in-flight" : "compute";
  }
  return time;
}

}  // namespace

KernelTime time_decode_attention(const GpuProfile& profile, MemoryModel& memory, const DecodeAttentionWork& asked,
                                 L2State l2) {
  for (const AttentionTask& task : asked.tasks) {
    if (task.fp8_entries < 0 || task.fp8_entries > task.num_entries) {
      throw InputError(fmt::format("decode attention: fp8_entries must be in 0..num_entries, got {} of {}",
                                   task.fp8_entries, task.num_entries));
    }
  }
  const Calls calls = as_run(profile, asked);
  KernelTime time = time_call(profile, memory, calls.first, l2);
  if (calls.second.tasks.empty()) return time;
  for (const KernelTime& next :
       {time_call(profile, memory, calls.second, l2), time_merge(profile, memory, calls.second)}) {
    const double first = to_seconds(time.duration), second = to_seconds(next.duration);
    time.memory_busy_share = (time.memory_busy_share * first + next.memory_busy_share * second) / (first + second);
    time.duration += next.duration;
    time.hbm_bytes += next.hbm_bytes;
  }
  // Few codes: a kernel that converts them reads all entries in one call.
  DecodeAttentionWork converting = asked;
  converting.kernel = calls.first.kernel;
  const KernelTime one_call = time_call(profile, memory, converting, l2);
  return one_call.duration < time.duration ? one_call : time;
}

bool joins_prompts(const GpuProfile& profile, const DecodeAttentionWork& asked) {
  const Calls calls = as_run(profile, asked);
  const DecodeAttentionWork& work = calls.first;
  return calls.second.tasks.empty() && !work.is_latent && profile.attention_kernel(work.kernel, work).joins_prompts &&
         std::ranges::all_of(work.tasks, [](const AttentionTask& task) {
           return task.dequantized_elements == 0 && task.reconstruction_macs == 0;
         });
}

}  // namespace kvtide::gpu
