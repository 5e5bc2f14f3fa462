#pragma once
// The detailed memory tier against published runs of DRAM simulators on the same request streams.

#include <optional>
#include <string>
#include <vector>

#include "gpu/memory/channel_controller.h"
#include "gpu/memory/closed_loop.h"

namespace kvtide::gpu {

/// One run: a stack of a standard, fed with a reference stream that keeps max_outstanding requests in the memory.
struct ReferenceRun {
  std::string standard = "hbm3";  ///< hw_profiles/memory/<this>.yaml
  std::string pattern = "seq";    ///< as parse_stream_pattern reads it
  Bytes block_bytes = 16384;
  std::int64_t num_requests = 200000;
  std::int64_t max_outstanding = 4096;
  std::int64_t queue_size = 64;
  RefreshMode refresh = RefreshMode::all_bank;
  AddressMapping mapping = AddressMapping::hash256;
  std::int64_t num_channels = 0;  ///< 0: one stack
};

struct ReferenceOutcome {
  double peak_fraction = 0;
  double row_hit_rate = 0;     ///< requests whose first command found their row open
  double read_latency_ns = 0;  ///< mean, from acceptance by the channel's queue to the end of the data
  Tick last_completion = 0;
  ChannelCounters counters;
};

/// @param source  instead of the run's own stream; null: that one
/// @throws InputError  unknown standard or pattern
[[nodiscard]] ReferenceOutcome run_reference(const ReferenceRun& run, RequestSource* source = nullptr);

/// One row of a file laid out like dram-reference.csv, beside what our memory makes of it.
struct DramRow {
  std::string simulator, standard, mapping, pattern, variant;
  std::int64_t block_bytes = 0;
  double peak_fraction = 0;
  double row_hit_rate = 0;
  double mean_latency_ns = 0;
  std::optional<ReferenceRun> run;  ///< none: another address map, scheduler or refresh than ours
  ReferenceOutcome outcome;
  double requests_per_second = 0;  ///< of processor time, simulated by us

  /// Single requests on an idle memory: only their latency means something.
  [[nodiscard]] bool is_idle() const { return pattern.starts_with("idle_"); }
};

/// @throws InputError  missing columns, damaged cells
[[nodiscard]] std::vector<DramRow> load_dram_rows(const std::string& path);

/// Runs every row that can be run, on up to num_threads threads.
void run_dram_rows(std::vector<DramRow>& rows, std::int64_t num_threads);

}  // namespace kvtide::gpu
