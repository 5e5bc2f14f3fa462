#include "gpu/memory/memory_standard.h"

#include <fmt/format.h>

#include <bit>
#include <initializer_list>
#include <utility>

#include "base/data_directory.h"
#include "base/error.h"
#include "config/yaml_value.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxBanksPerPseudoChannel = 64;  // one machine word of candidates in ChannelController

bool is_power_of_two(std::int64_t count) {
  return count > 0 && std::has_single_bit(static_cast<std::uint64_t>(count));
}

Timing read_timing(const config::Value& timings, const char* key, bool is_required) {
  const config::Value entry = timings.at(key);
  Timing timing;
  if (!entry.exists()) {
    if (is_required) entry.error("required: a mapping with value (such as 14 ns) or clocks, and source");
    return timing;
  }
  timing.seconds = entry.quantity("value", {.dimension = Dimension::time, .fallback = 0.0, .min = 0.0, .max = 1e-3});
  timing.clocks = entry.integer("clocks", {.fallback = 0, .min = 0, .max = 1000000});
  (void)entry.string("source");
  return timing;
}

std::int64_t read_count(const config::Value& map, const char* key, std::int64_t max) {
  return map.integer(key, {.min = 1, .max = max});
}

}  // namespace

void MemoryStandard::validate() const {
  const auto fail = [this](const std::string& what) {
    throw InputError(fmt::format("memory standard {}: {}", name, what));
  };
  for (const auto& [count, what] :
       {std::pair{geometry.num_pseudo_channels, "pseudo channels"}, std::pair{geometry.num_stack_ids, "stack IDs"},
        std::pair{geometry.num_bank_groups, "bank groups"}, std::pair{geometry.num_banks, "banks per bank group"},
        std::pair{geometry.pseudo_channel_bits, "bits of a pseudo channel"},
        std::pair{geometry.burst_length, "burst length"}}) {
    if (!is_power_of_two(count)) fail(fmt::format("{} {}: expected a power of two", count, what));
  }
  if (geometry.num_pseudo_channels > 2) fail("expected 1 or 2 pseudo channels per channel");
  if (geometry.banks_per_pseudo_channel() > kMaxBanksPerPseudoChannel) {
    fail(fmt::format("{} banks per pseudo channel: at most {}", geometry.banks_per_pseudo_channel(),
                     kMaxBanksPerPseudoChannel));
  }
  if (geometry.num_channels < 1 || geometry.num_channels > 1024) fail("expected 1..1024 channels");
  if (geometry.num_rows < 1 || geometry.num_rows > (std::int64_t{1} << 24)) fail("expected 1..2^24 rows");
  if (geometry.burst_bytes() < 8 || geometry.row_bytes > 64 * kKiB ||
      geometry.row_bytes % geometry.burst_bytes() != 0 || !is_power_of_two(geometry.columns_per_row())) {
    fail(fmt::format("a row of {} B is not a power of two of bursts of {} B", geometry.row_bytes,
                     geometry.burst_bytes()));
  }
  if (!(data_rate > 0) || data_rate > 1e12 || max_data_rate < data_rate)
    fail("expected 0 < data_rate <= max_data_rate <= 1e12");
  if (bits_per_tick < 1 || geometry.burst_length % bits_per_tick != 0)
    fail("bits_per_tick must divide the burst length");
  if (ticks_per_clock != 1 && ticks_per_clock != 2) fail("ticks_per_clock is 1 or 2");
  if (activate_ticks < 1 || activate_ticks > 8 || precharge_ticks < 1 || precharge_ticks > 8) {
    fail("a row command holds its bus for 1..8 ticks");
  }
  if (timings.rc.seconds < timings.ras.seconds) fail("rc is shorter than ras");
  if (timings.refi.seconds > 0 && timings.refi.seconds < 2 * timings.rfc.seconds + 4 * timings.rc.seconds) {
    fail(fmt::format("refresh takes {} ns of every {} ns: expected less than half", timings.rfc.seconds * 1e9,
                     timings.refi.seconds * 1e9));
  }
}

MemoryStandard load_memory_standard(const std::string& name_or_path) {
  const config::Document document =
      config::Document::load(find_data_file("hw_profiles/memory", name_or_path, {".yaml"}));
  const config::Value root = document.root();
  MemoryStandard standard;
  standard.name = root.string("name");
  const config::Value geometry = root.at("geometry");
  standard.geometry = {.num_channels = read_count(geometry, "channels", 1024),
                       .num_pseudo_channels = read_count(geometry, "pseudo_channels", 2),
                       .pseudo_channel_bits = read_count(geometry, "pseudo_channel_bits", 1024),
                       .burst_length = read_count(geometry, "burst_length", 64),
                       .num_stack_ids = read_count(geometry, "stack_ids", 64),
                       .num_bank_groups = read_count(geometry, "bank_groups", 64),
                       .num_banks = read_count(geometry, "banks", 64),
                       .num_rows = read_count(geometry, "rows", std::int64_t{1} << 24),
                       .row_bytes = static_cast<Bytes>(geometry.quantity(
                           "row_size", {.dimension = Dimension::size, .fallback = {}, .min = 64, .max = 65536}))};
  (void)geometry.string("source");
  const config::Value clock = root.at("clock");
  standard.data_rate = clock.number("data_rate_gbps", {.fallback = {}, .min = 0.1, .max = 1000}) * 1e9;
  standard.max_data_rate = clock.number("max_data_rate_gbps", {.fallback = {}, .min = 0.1, .max = 1000}) * 1e9;
  standard.bits_per_tick = read_count(clock, "bits_per_tick", 64);
  standard.ticks_per_clock = read_count(clock, "ticks_per_clock", 2);
  standard.activate_ticks = read_count(clock, "activate_ticks", 8);
  standard.precharge_ticks = read_count(clock, "precharge_ticks", 8);
  standard.one_command_bus = clock.boolean("one_command_bus", false);
  (void)clock.string("source");
  const config::Value timings = root.at("timings");
  MemoryTimings& t = standard.timings;
  for (const auto& [key, timing] : {std::pair<const char*, Timing*>{"cl", &t.cl},
                                    {"cwl", &t.cwl},
                                    {"rcd_read", &t.rcd_read},
                                    {"rcd_write", &t.rcd_write},
                                    {"rp", &t.rp},
                                    {"ras", &t.ras},
                                    {"rc", &t.rc},
                                    {"ccd_s", &t.ccd_s},
                                    {"ccd_l", &t.ccd_l},
                                    {"rrd_s", &t.rrd_s},
                                    {"rrd_l", &t.rrd_l},
                                    {"rtp", &t.rtp},
                                    {"wr", &t.wr},
                                    {"wtr_s", &t.wtr_s},
                                    {"wtr_l", &t.wtr_l},
                                    {"rtw", &t.rtw},
                                    {"rfc", &t.rfc},
                                    {"refi", &t.refi}}) {
    *timing = read_timing(timings, key, true);
  }
  for (const auto& [key, timing] : {std::pair<const char*, Timing*>{"ccd_r", &t.ccd_r},
                                    {"faw", &t.faw},
                                    {"ppd", &t.ppd},
                                    {"rfc_pb", &t.rfc_pb},
                                    {"rrefd", &t.rrefd}}) {
    *timing = read_timing(timings, key, false);
  }
  root.finish();
  document.throw_if_errors();
  standard.validate();
  return standard;
}

}  // namespace kvtide::gpu
