#include "gpu/validation/dram_reference.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "config/csv_table.h"
#include "gpu/memory/memory_device.h"
#include "gpu/memory/request_stream.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxRequests = 1'000'000'000;

/// What the row asks for, where our memory has the same rules.
std::optional<ReferenceRun> run_of(const DramRow& row, const config::CsvTable& table, std::size_t index) {
  static const std::map<std::string, std::string> standards{
      {"HBM2", "hbm2"}, {"HBM2e", "hbm2e"}, {"HBM3", "hbm3"}, {"HBM3e", "hbm3e"}, {"HBM4", "hbm4"}};
  // `default` is a scheduler without row-hit protection, `pbref` per-bank refresh, `q16c2` DRAMsim3's own queues.
  static const std::map<std::string, std::int64_t> queues{{"base", 64}, {"noref", 64}, {"q128", 128}, {"q256", 256}};
  const auto standard = standards.find(row.standard);
  const auto queue = queues.find(row.variant);
  if (standard == standards.end() || queue == queues.end()) return std::nullopt;
  if (row.mapping != "hash256" && row.mapping != "row1k") return std::nullopt;
  ReferenceRun run;
  run.standard = standard->second;
  run.pattern = row.is_idle() ? row.pattern.substr(5) : row.pattern;
  run.block_bytes = static_cast<Bytes>(row.block_bytes);
  run.num_requests = table.integer(index, "n_requests", 1, kMaxRequests);
  run.max_outstanding = table.integer(index, "window", 1, 1 << 20);
  run.queue_size = queue->second;
  run.refresh = row.variant == "noref" ? RefreshMode::none : RefreshMode::all_bank;
  run.mapping = row.mapping == "row1k" ? AddressMapping::row1k : AddressMapping::hash256;
  return run;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

ReferenceOutcome run_reference(const ReferenceRun& run, RequestSource* source) {
  const MemoryStandard standard = load_memory_standard(run.standard);
  const std::int64_t num_channels = run.num_channels > 0 ? run.num_channels : standard.geometry.num_channels;
  const MemoryDevice device{standard, num_channels, standard.data_rate};
  const AddressMap map(standard.geometry, num_channels, run.mapping);
  ReferenceStream stream(parse_stream_pattern(run.pattern, run.block_bytes), map.capacity(),
                         standard.geometry.burst_bytes());
  ClosedLoop loop(device,
                  {.mapping = run.mapping,
                   .controller = {.queue_size = run.queue_size, .refresh = run.refresh},
                   .max_outstanding = run.max_outstanding,
                   .num_requests = run.num_requests},
                  source != nullptr ? *source : stream);
  loop.run_to_completion();
  const ChannelCounters counters = loop.counters();
  const auto columns = static_cast<double>(counters.reads + counters.writes);
  return {.peak_fraction = loop.peak_fraction(),
          .row_hit_rate = static_cast<double>(counters.row_hits) / columns,
          .read_latency_ns = static_cast<double>(counters.read_latency) * loop.timings().tick_seconds * 1e9 /
                             static_cast<double>(std::max<std::int64_t>(1, counters.reads)),
          .last_completion = loop.last_completion(),
          .counters = counters};
}

std::vector<DramRow> load_dram_rows(const std::string& path) {
  const config::CsvTable table = config::CsvTable::load(path);
  std::vector<DramRow> rows;
  for (std::size_t index = 0; index < table.num_rows(); ++index) {
    DramRow row;
    row.simulator = table.text(index, "simulator");
    row.standard = table.text(index, "standard");
    row.mapping = table.text(index, "mapping");
    row.pattern = table.text(index, "pattern");
    row.variant = table.text(index, "variant");
    row.block_bytes = table.integer(index, "block_bytes", 0, std::int64_t{1} << 40);
    row.peak_fraction = table.number(index, "achieved_fraction", 0, 1);
    row.row_hit_rate = table.number(index, "row_hit_rate", 0, 1);
    row.mean_latency_ns = table.number(index, "mean_latency_ns", 0, 1e12);
    row.run = run_of(row, table, index);
    rows.push_back(std::move(row));
  }
  return rows;
}

void run_dram_rows(std::vector<DramRow>& rows, std::int64_t num_threads) {
  std::atomic<std::size_t> next{0};
  std::mutex failure_lock;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t index = next++; index < rows.size(); index = next++) {
      DramRow& row = rows[index];
      if (!row.run) continue;
      try {
        const double begin = thread_seconds();
        row.outcome = run_reference(*row.run);
        const double seconds = thread_seconds() - begin;
        row.requests_per_second = seconds > 0 ? static_cast<double>(row.run->num_requests) / seconds : 0;
      } catch (...) {
        const std::lock_guard guard(failure_lock);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::int64_t thread = 1; thread < num_threads; ++thread) threads.emplace_back(work);
  work();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kvtide::gpu
