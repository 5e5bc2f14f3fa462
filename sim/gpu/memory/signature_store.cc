#include "gpu/memory/signature_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/random.h"

namespace kvtide::gpu {
namespace {

// To be raised with every change of the detailed or sampled tier that moves a result.
constexpr int kVersion = 1;
// A damaged file must not fill the memory: 100,000 signatures are 20 MB, more than any sweep asks for.
constexpr std::size_t kMaxSignatures = 100000;

std::string hexadecimal(double value) {
  return fmt::format("{:a}", value);
}

/// @return false when `text` is not wholly one number
bool read_hexadecimal(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

template <typename Integer>
bool read_integer(const std::string& text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string line_of(const AccessPattern& pattern, const MemoryPerformance& performance) {
  return fmt::format("{},{},{},{},{},{},{},{},.\n", pattern.chunk_bytes, pattern.num_streams,
                     hexadecimal(pattern.write_share), pattern.bytes_in_flight,
                     hexadecimal(performance.bytes_per_second), hexadecimal(performance.peak_fraction),
                     hexadecimal(performance.row_hit_rate), hexadecimal(performance.relative_half_width));
}

/// The final "." tells a whole line from a torn one.
bool read_line(const std::string& line, AccessPattern& pattern, MemoryPerformance& performance) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells.size() == 9 && cells[8] == "." && read_integer(cells[0], pattern.chunk_bytes) &&
         read_integer(cells[1], pattern.num_streams) && read_hexadecimal(cells[2], pattern.write_share) &&
         read_integer(cells[3], pattern.bytes_in_flight) && read_hexadecimal(cells[4], performance.bytes_per_second) &&
         performance.bytes_per_second > 0 && read_hexadecimal(cells[5], performance.peak_fraction) &&
         read_hexadecimal(cells[6], performance.row_hit_rate) &&
         read_hexadecimal(cells[7], performance.relative_half_width);
}

}  // namespace

std::string device_description(const MemoryDevice& device) {
  const MemoryGeometry& g = device.standard.geometry;
  const MemoryTimings& t = device.standard.timings;
  std::string text = fmt::format(
      "kvtide memory signatures {} {} channels {} rate {} queue {} refresh {} geometry {} {} {} {} {} {} {} {} {} "
      "clock {} {} {} "
      "{} "
      "{} timings",
      kVersion, device.standard.name, device.num_channels, hexadecimal(device.data_rate), device.queue_size,
      static_cast<int>(device.refresh), g.num_channels, g.num_pseudo_channels, g.pseudo_channel_bits, g.burst_length,
      g.num_stack_ids, g.num_bank_groups, g.num_banks, g.num_rows, g.row_bytes, device.standard.bits_per_tick,
      device.standard.ticks_per_clock, device.standard.activate_ticks, device.standard.precharge_ticks,
      device.standard.one_command_bus);
  for (const Timing& timing :
       {t.cl,  t.cwl, t.rcd_read, t.rcd_write, t.rp,    t.ras, t.rc,  t.ccd_s, t.ccd_l, t.ccd_r,  t.rrd_s, t.rrd_l,
        t.faw, t.rtp, t.wr,       t.wtr_s,     t.wtr_l, t.rtw, t.ppd, t.rfc,   t.refi,  t.rfc_pb, t.rrefd}) {
    text += fmt::format(" {} {}", hexadecimal(timing.seconds), timing.clocks);
  }
  return text;
}

SignatureStore::SignatureStore(const std::filesystem::path& folder, const MemoryDevice& device) {
  if (folder.empty()) return;
  const std::string head = device_description(device);
  const std::filesystem::path file = folder / fmt::format("{:016x}.csv", fnv1a64(head));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ifstream in(file);
  std::string line;
  if (in) {
    if (!std::getline(in, line) || line != head) return;  // another device of the same hash, or a damaged file
    while (known_.size() < kMaxSignatures && std::getline(in, line)) {
      AccessPattern pattern;
      MemoryPerformance performance;
      if (read_line(line, pattern, performance)) known_.insert_or_assign(pattern, performance);
    }
    file_ = file;
    return;
  }
  // O_EXCL: of two processes that start at once, one writes the head.
  const int fresh = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fresh < 0) return;
  const std::string text = head + "\n";
  if (::write(fresh, text.data(), text.size()) == static_cast<ssize_t>(text.size())) file_ = file;
  ::close(fresh);
}

void SignatureStore::add(const AccessPattern& pattern, const MemoryPerformance& performance) const {
  if (file_.empty()) return;
  const int out = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (out < 0) return;
  const std::string line = line_of(pattern, performance);
  [[maybe_unused]] const ssize_t written = ::write(out, line.data(), line.size());
  ::close(out);
}

std::filesystem::path signature_folder() {
  const char* folder = std::getenv("KVTIDE_MEMORY_CACHE");
  return folder == nullptr ? std::filesystem::path() : std::filesystem::path(folder);
}

}  // namespace kvtide::gpu
