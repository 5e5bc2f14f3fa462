#include "gpu/prefill_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "gpu/block_dispatch.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;
constexpr std::int64_t kMaxTiles = std::int64_t{1} << 20;  // of one sequence and head: bounds the work of a prediction
constexpr double kMaxBlocks = 1e12;
constexpr double kMaxSeconds = 1e6;                // keeps a duration inside 64 bits of picoseconds
constexpr double kActivationBytes = 2;             // of an element of q, k, v and the output
constexpr Bytes kActivationRun = Bytes{64} << 10;  // rows of a tensor lie one after another

void check(const PrefillAttentionWork& work) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw InputError("prefill attention: " + message);
  };
  require(
      work.heads >= 1 && work.heads <= 65536 && work.kv_heads >= 1 && work.heads % work.kv_heads == 0,
      fmt::format("heads must be in 1..65536 and a multiple of kv_heads, got {} and {}", work.heads, work.kv_heads));
  require(work.head_dim >= 1 && work.head_dim <= 65536 && work.value_dim >= 0 && work.value_dim <= 65536,
          fmt::format("head_dim must be in 1..65536 and value_dim in 0..65536, got {} and {}", work.head_dim,
                      work.value_dim));
  require(work.window >= 0, fmt::format("window must be >= 0, got {}", work.window));
  require(work.page_tokens >= 1 && work.page_tokens <= 65536,
          fmt::format("page_tokens must be in 1..65536, got {}", work.page_tokens));
  for (const std::int64_t bits : {work.query_bits, work.kv_bits}) {
    require(bits >= 1 && bits <= 16, fmt::format("query_bits and kv_bits must be in 1..16, got {}", bits));
  }
  for (const PrefillSequence& sequence : work.sequences) {
    require(sequence.num_new >= 0 && sequence.num_cached >= 0 && sequence.count >= 0 &&
                sequence.num_new <= kMaxTokens && sequence.num_cached <= kMaxTokens && sequence.count <= kMaxTokens,
            fmt::format("num_new, num_cached and count must be in 0..{}, got {}, {} and {}", kMaxTokens,
                        sequence.num_new, sequence.num_cached, sequence.count));
  }
}

/// How the kernel cuts this work and what a score costs on one SM.
struct Tiling {
  std::int64_t tile_keys = 0;
  std::int64_t tile_queries = 0;
  std::int64_t rows_per_token = 1;       ///< query heads that share a tile
  std::int64_t blocks_per_sequence = 1;  ///< heads, or KV heads where the group is packed
  double score_time = 0;
};

Tiling tiling_of(const GpuProfile& profile, const PrefillKernel& kernel, const PrefillAttentionWork& work) {
  Tiling tiling;
  const auto [padded, keys] = kernel.tile_of(work.head_dim);
  const auto [padded_value, unused] = kernel.tile_of(work.value_dim > 0 ? work.value_dim : work.head_dim);
  tiling.tile_keys = keys;
  tiling.tile_queries = kernel.tile_queries;
  const std::int64_t group = work.heads / work.kv_heads;
  tiling.rows_per_token = kernel.packs_group ? group : 1;
  tiling.blocks_per_sequence = kernel.packs_group ? work.kv_heads : work.heads;
  const bool is_8bit = kernel.operand_bits == 8 && profile.tensor_flops_8bit > 0;
  const double sms = static_cast<double>(profile.num_sms);
  const double tensor = (is_8bit ? profile.tensor_flops_8bit : profile.tensor_flops_16bit) * kernel.tensor_efficiency *
                        profile.tensor_derating / sms;
  tiling.score_time =
      2 * static_cast<double>(padded + padded_value) / tensor + 1 / (kernel.scores_per_clock * profile.clock);
  return tiling;
}

/// Appends the blocks of equal sequences; query tiles with equally many key tiles are one group.
void add_blocks(const PrefillSequence& sequence, std::int64_t window, const Tiling& tiling, double task_time,
                std::vector<BlockGroup>& groups) {
  const std::int64_t num_rows = sequence.num_new * tiling.rows_per_token;
  const std::int64_t num_tiles = ceil_div(num_rows, tiling.tile_queries);
  if (num_tiles > kMaxTiles) {
    throw InputError(
        fmt::format("prefill attention: {} new tokens are more than {} query tiles", sequence.num_new, kMaxTiles));
  }
  const double num_blocks = static_cast<double>(num_tiles) * static_cast<double>(sequence.count) *
                            static_cast<double>(tiling.blocks_per_sequence);
  if (num_blocks > kMaxBlocks) {
    throw InputError(
        fmt::format("prefill attention: {:.3g} thread blocks are more than {:.3g}", num_blocks, kMaxBlocks));
  }
  const std::int64_t copies = sequence.count * tiling.blocks_per_sequence;
  std::int64_t same = 0;
  std::int64_t key_tiles = 0;
  const auto flush = [&] {
    if (same == 0) return;
    const double scores = static_cast<double>(key_tiles * tiling.tile_queries * tiling.tile_keys);
    groups.push_back({same * copies, task_time + scores * tiling.score_time});
  };
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t first_row = tile * tiling.tile_queries;
    const std::int64_t last_row = std::min(num_rows, first_row + tiling.tile_queries) - 1;
    const std::int64_t touched =
        touched_tiles(sequence.num_cached + first_row / tiling.rows_per_token,
                      sequence.num_cached + last_row / tiling.rows_per_token, window, tiling.tile_keys);
    if (touched != key_tiles) {
      flush();
      same = 0;
      key_tiles = touched;
    }
    ++same;
  }
  flush();
}

/// Query tiles that a grid as long as the longest sequence launches in vain, of one head.
///
/// Example: 64-row tiles, a chunk of 512 tokens beside 10 sequences of one: 8 + 10 tiles do work, 11 x 8 - 18 = 70 do not.
double empty_tiles(const PrefillAttentionWork& work, const Tiling& tiling) {
  std::int64_t longest = 0;
  double num_sequences = 0, num_tiles = 0;
  for (const PrefillSequence& sequence : work.sequences) {
    if (sequence.num_new == 0) continue;
    const std::int64_t tiles = ceil_div(sequence.num_new * tiling.rows_per_token, tiling.tile_queries);
    longest = std::max(longest, tiles);
    num_sequences += static_cast<double>(sequence.count);
    num_tiles += static_cast<double>(tiles) * static_cast<double>(sequence.count);
  }
  return static_cast<double>(longest) * num_sequences - num_tiles;
}

/// Mean over the channels of K and V.
double stored_element_bytes(const PrefillAttentionWork& work) {
  if (work.entry_bytes == 0) return static_cast<double>(work.kv_bits) / 8;
  return static_cast<double>(work.entry_bytes) /
         static_cast<double>(work.head_dim + (work.value_dim > 0 ? work.value_dim : work.head_dim));
}

/// Bytes of the whole call.
struct CallBytes {
  double queries = 0;    ///< in, 16 bit
  double new_kv = 0;     ///< in, 16 bit
  double stored_kv = 0;  ///< the new tokens as the cache holds them
  double cached_kv = 0;  ///< read of the earlier context
  double output = 0;
  double tokens = 0;
};

CallBytes bytes_of(const PrefillAttentionWork& work) {
  CallBytes bytes;
  const double key_dim = static_cast<double>(work.head_dim);
  const double value_dim = static_cast<double>(work.value_dim > 0 ? work.value_dim : work.head_dim);
  const double kv_elements = static_cast<double>(work.kv_heads) * (key_dim + value_dim);
  const double stored = kv_elements * stored_element_bytes(work);
  for (const PrefillSequence& sequence : work.sequences) {
    const double count = static_cast<double>(sequence.count);
    bytes.tokens += count * static_cast<double>(sequence.num_new);
    const std::int64_t read = work.window > 0 ? std::min(work.window - 1, sequence.num_cached) : sequence.num_cached;
    if (sequence.num_new > 0) bytes.cached_kv += count * static_cast<double>(read) * stored;
  }
  bytes.queries = bytes.tokens * static_cast<double>(work.heads) * key_dim * kActivationBytes;
  bytes.output = bytes.tokens * static_cast<double>(work.heads) * value_dim * kActivationBytes;
  bytes.new_kv = bytes.tokens * kv_elements * kActivationBytes;
  bytes.stored_kv = bytes.tokens * stored;
  return bytes;
}

}  // namespace

std::int64_t touched_tiles(std::int64_t first_position, std::int64_t last_position, std::int64_t window,
                           std::int64_t tile_keys) {
  const std::int64_t first_key = window > 0 ? std::max<std::int64_t>(0, first_position - window + 1) : 0;
  return last_position / tile_keys - first_key / tile_keys + 1;
}

KernelTime time_prefill_attention(const GpuProfile& profile, MemoryModel& memory, const PrefillAttentionWork& work,
                                  L2State l2) {
  check(work);
  const PrefillKernel& kernel = profile.kernels.prefill_kernel(work);
  const CallBytes bytes = bytes_of(work);
  if (bytes.tokens <= 0) return {};
  const Tiling tiling = tiling_of(profile, kernel, work);
  std::vector<BlockGroup> groups;
  for (const PrefillSequence& sequence : work.sequences) {
    if (sequence.num_new > 0 && sequence.count > 0) {
      add_blocks(sequence, work.window, tiling, kernel.task_time, groups);
    }
  }
  const double sms = static_cast<double>(profile.num_sms);
  const double empty = empty_tiles(work, tiling) * static_cast<double>(tiling.blocks_per_sequence);
  const double waves = dispatch_in_waves(std::move(groups), profile.num_sms) + empty * kernel.empty_block_time / sms;

  // What a previous kernel wrote and this one reads back is swept once through L2.
  const double fresh = bytes.queries + bytes.new_kv + bytes.stored_kv + bytes.output;
  const double capacity = static_cast<double>(profile.l2_bytes) * profile.l2_usable_share;
  const double hit_rate = cyclic_hit_rate(fresh + (l2 == L2State::warm ? bytes.cached_kv : 0), capacity);
  const double cached_hit_rate = l2 == L2State::warm ? hit_rate : 0;
  const Bytes page_run = std::max<Bytes>(
      32, static_cast<Bytes>(static_cast<double>(work.page_tokens * work.head_dim) * stored_element_bytes(work)));
  TrafficTime hbm;
  double hbm_bytes = 0;
  const auto seconds_of = [&](double activations, double pages) {
    const double missed = activations * (1 - hit_rate);
    const double missed_pages = pages * (1 - cached_hit_rate);
    hbm_bytes += missed + missed_pages;
    hbm = traffic_time(profile, memory, {{missed, kActivationRun, 0}, {missed_pages, page_run, 0}});
    const double from_l2 = activations + pages - missed - missed_pages;
    return hbm.seconds + from_l2 / profile.l2_bandwidth;
  };
  const double operand_share = kernel.operand_bits == 8 ? 0.5 : 1;  // queries cast by the pass before
  double append_bytes = bytes.new_kv + bytes.stored_kv;
  if (kernel.rotates) append_bytes += bytes.queries * (1 + operand_share);
  const double append_hbm = seconds_of(append_bytes, 0);
  const double append = std::max(bytes.tokens * kernel.append_time / sms, append_hbm) +
                        bytes.queries / kActivationBytes * kernel.query_time / sms;
  // Query heads of a group read the earlier context one after another, each over the whole batch.
  double pages = bytes.cached_kv;
  if (!kernel.packs_group) {
    const std::int64_t heads_of_group = work.heads / work.kv_heads;
    const auto group = static_cast<double>(heads_of_group);
    pages *= 1 + (group - 1) * (1 - cyclic_hit_rate(bytes.cached_kv / static_cast<double>(work.kv_heads), capacity));
  }
  const double memory_time = seconds_of(bytes.queries * operand_share + bytes.stored_kv + bytes.output, pages);
  const double fixed = profile.graph_launch_latency + kernel.fixed_time;
  const double body = std::max(waves, memory_time) + append;
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(fmt::format("prefill attention: the work takes {:.3g} s, more than a million", fixed + body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = static_cast<Bytes>(std::llround(hbm_bytes));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = (memory_time + append_hbm) / (fixed + body);
  time.limited_by = fixed >= body ? "launch" : waves >= memory_time ? "compute" : "memory";
  return time;
}

}  // namespace kvtide::gpu
