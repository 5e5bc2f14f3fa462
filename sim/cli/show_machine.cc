#include "cli/show_machine.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quoted_text.h"
#include "cli/fidelity_option.h"
#include "cli/table.h"
#include "config/yaml_value.h"
#include "gpu/gpu.h"

namespace kvtide::cli {
namespace {

constexpr std::size_t kBarWidth = 40;

/// Streams a decode kernel keeps open: a few CTAs on each SM.
constexpr std::int64_t kStreamsPerSm = 4;

gpu::AccessPattern read_pattern(const std::string& text, const gpu::GpuProfile& profile) {
  config::Document document = config::Document::parse(text, "--pattern");
  const config::Value root = document.root();
  gpu::AccessPattern pattern;
  const auto bytes = [&root](const char* key, Bytes fallback, double min) {
    return static_cast<Bytes>(std::llround(root.quantity(
        key, {.dimension = Dimension::size, .fallback = static_cast<double>(fallback), .min = min, .max = 1e15})));
  };
  pattern.chunk_bytes = bytes("chunk", pattern.chunk_bytes, 32);
  pattern.num_streams =
      root.integer("streams", {.fallback = kStreamsPerSm * profile.num_sms, .min = 1, .max = INT64_MAX});
  pattern.write_share = root.number("writes", {.fallback = 0.0, .min = 0, .max = 1});
  pattern.bytes_in_flight = bytes("in_flight", profile.bytes_in_flight * static_cast<Bytes>(profile.num_sms), 1);
  root.finish();
  document.throw_if_errors();
  return pattern;
}

struct Point {
  Bytes bytes = 0;
  gpu::MemoryPerformance performance;
};

std::vector<Point> sweep(gpu::MemoryModel& memory, gpu::AccessPattern pattern, Bytes gpu::AccessPattern::*axis,
                         Bytes first, Bytes last) {
  std::vector<Point> points;
  for (Bytes value = first; value <= last; value *= 4) {
    pattern.*axis = value;
    points.push_back({value, memory.measure(pattern)});
  }
  return points;
}

std::string bars(const char* title, const std::vector<Point>& points, double peak) {
  Table table({{title, Align::right}, {"GB/s", Align::right}, {"of the pins", Align::right}, {"", Align::left}});
  for (const Point& point : points) {
    const double share = point.performance.bytes_per_second / peak;
    std::string bar;
    for (std::size_t i = 0; i < kBarWidth; ++i) {
      bar += static_cast<double>(i) + 0.5 < share * static_cast<double>(kBarWidth) ? "█" : "·";
    }
    table.add_row({format_bytes(static_cast<double>(point.bytes)),
                   fmt::format("{:.0f}", point.performance.bytes_per_second * 1e-9),
                   fmt::format("{:.1f}%", 100 * share), bar});
  }
  return table.text();
}

std::string performance_json(const gpu::MemoryPerformance& performance) {
  return fmt::format(R"("bytes_per_second": {}, "peak_fraction": {}, "row_hit_rate": {}, "relative_half_width": {})",
                     performance.bytes_per_second, performance.peak_fraction,
                     std::isfinite(performance.row_hit_rate) ? fmt::format("{}", performance.row_hit_rate) : "null",
                     performance.relative_half_width);
}

std::string sweep_json(const char* axis, const std::vector<Point>& points) {
  std::vector<std::string> items;
  for (const Point& point : points) {
    items.push_back(fmt::format(R"({{"{}": {}, {}}})", axis, point.bytes, performance_json(point.performance)));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

void show_machine(const Arguments& arguments) {
  const auto name = arguments.text("gpu");
  if (!name) throw InputError("kvtide show machine: --gpu NAME is required (kvtide show gpus lists them)");
  const gpu::Fidelity fidelity = fidelity_option(arguments, gpu::Fidelity::sampled);
  gpu::Gpu machine(gpu::load_gpu_profile(*name), fidelity);
  const gpu::GpuProfile& profile = machine.profile();
  const gpu::AccessPattern pattern = read_pattern(arguments.text("pattern").value_or("{}"), profile);

  const gpu::MemoryPerformance answer = machine.memory().measure(pattern);
  const std::vector<Point> by_chunk =
      sweep(machine.memory(), pattern, &gpu::AccessPattern::chunk_bytes, 64, 1024 * kKiB);
  const std::vector<Point> by_in_flight =
      sweep(machine.memory(), pattern, &gpu::AccessPattern::bytes_in_flight, 64 * kKiB, 64 * kMiB);
  if (arguments.has("json")) {
    fmt::print(
        "{{\"gpu\": {}, \"fidelity\": \"{}\", \"pattern\": {{\"chunk_bytes\": {}, \"num_streams\": {}, "
        "\"write_share\": "
        "{}, \"bytes_in_flight\": {}}}, {}, \"by_chunk_bytes\": {}, \"by_bytes_in_flight\": {}}}\n",
        quoted_text(profile.name), fidelity_name(fidelity), pattern.chunk_bytes, pattern.num_streams,
        pattern.write_share, pattern.bytes_in_flight, performance_json(answer), sweep_json("chunk_bytes", by_chunk),
        sweep_json("bytes_in_flight", by_in_flight));
    return;
  }
  fmt::print(
      "{}: chunks of {}, {} streams, {:.0f} % writes, {} in flight: {:.0f} GB/s +- {:.1f} %, {:.1f} % of the pins",
      profile.name, format_bytes(static_cast<double>(pattern.chunk_bytes)), pattern.num_streams,
      100 * pattern.write_share, format_bytes(static_cast<double>(pattern.bytes_in_flight)),
      answer.bytes_per_second * 1e-9, 100 * answer.relative_half_width, 100 * answer.peak_fraction);
  if (std::isfinite(answer.row_hit_rate)) fmt::print(", {:.0f} % row hits", 100 * answer.row_hit_rate);
  fmt::print(" ({} tier)\n\n{}\n{}", fidelity_name(fidelity), bars("chunk", by_chunk, profile.bandwidth),
             bars("in flight", by_in_flight, profile.bandwidth));
}

}  // namespace kvtide::cli
