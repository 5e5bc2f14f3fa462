// The three tiers behind MemoryModel: detailed (all channels), sampled (a few channels, memoised), roofline.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "gpu/memory/closed_loop.h"
#include "gpu/memory/memory_device.h"
#include "gpu/memory/signature_store.h"

namespace kvtide::gpu {
namespace {

constexpr Bytes kMinChunkBytes = 32;
constexpr Bytes kMaxChunkBytes = 64 * kMiB;
constexpr std::int64_t kMaxStreams = 65536;
// More requests than this per pseudo channel only lengthen the queue in front of the controller (64 entries).
constexpr std::int64_t kMaxOutstandingPerPseudoChannel = 1024;
constexpr std::int64_t kSubsetChannels = 4;
constexpr double kPieceBytes = 256;  // what an address map keeps in one row of one channel
constexpr int kMinBatches = 6, kMaxBatches = 40;
constexpr double kTargetHalfWidth = 0.01;  // of the mean

void check_pattern(const AccessPattern& pattern) {
  if (pattern.chunk_bytes < kMinChunkBytes || pattern.chunk_bytes > kMaxChunkBytes) {
    throw InputError(fmt::format("access pattern: chunk_bytes {}: expected {}..{}", pattern.chunk_bytes, kMinChunkBytes,
                                 kMaxChunkBytes));
  }
  if (pattern.num_streams < 1)
    throw InputError(fmt::format("access pattern: num_streams {}: expected >= 1", pattern.num_streams));
  if (!(pattern.write_share >= 0 && pattern.write_share <= 1)) {
    throw InputError(fmt::format("access pattern: write_share {}: expected 0..1", pattern.write_share));
  }
  if (pattern.bytes_in_flight < 1) throw InputError("access pattern: bytes_in_flight 0: expected >= 1");
}

/// Half width of the 95 % confidence interval of the mean, relative to the mean.
double relative_half_width(const std::vector<double>& samples) {
  const auto count = static_cast<double>(samples.size());
  double mean = 0;
  for (const double sample : samples) mean += sample / count;
  double variance = 0;
  for (const double sample : samples) variance += (sample - mean) * (sample - mean) / (count - 1);
  const double quantile = boost::math::quantile(boost::math::students_t(count - 1), 0.975);
  return mean > 0 ? quantile * std::sqrt(variance / count) / mean : 1.0;
}

/// Closed-loop run on `num_channels` of the device's channels with their share of the requests in flight and of the
/// streams. Batches are whole refresh intervals; the first is warm-up.
MemoryPerformance simulate(const MemoryDevice& device, const AccessPattern& pattern, std::int64_t num_channels) {
  MemoryDevice part = device;
  part.num_channels = num_channels;
  const double share = static_cast<double>(num_channels) / static_cast<double>(device.num_channels);
  const Bytes burst = device.standard.geometry.burst_bytes();
  const auto outstanding = static_cast<std::int64_t>(std::llround(
      std::max(1.0, std::min(static_cast<double>(pattern.bytes_in_flight) / static_cast<double>(burst) * share,
                             static_cast<double>(part.num_pseudo_channels() * kMaxOutstandingPerPseudoChannel)))));
  const auto num_streams = std::clamp<std::int64_t>(
      std::llround(static_cast<double>(std::min(pattern.num_streams, std::int64_t{1} << 40)) * share), 1, kMaxStreams);
  const AddressMap map(part.standard.geometry, num_channels, AddressMapping::hash256);
  PatternStream stream(pattern, num_streams, map.capacity(), burst);
  ClosedLoop loop(part,
                  {.mapping = AddressMapping::hash256,
                   .controller = {.queue_size = device.queue_size, .refresh = device.refresh},
                   .max_outstanding = outstanding},
                  stream);

  const Tick interval = loop.timings().refresh_interval > 0 ? loop.timings().refresh_interval : 8192;
  loop.run_until(interval);
  const ChannelCounters before = loop.counters();
  Tick batch_end = interval;
  std::int64_t completed = loop.completed();
  std::vector<double> rates;
  double half_width = 1;
  while (static_cast<int>(rates.size()) < kMaxBatches) {
    const Tick begin = batch_end;
    batch_end += interval;
    loop.run_until(batch_end);
    rates.push_back(static_cast<double>(loop.completed() - completed) / static_cast<double>(batch_end - begin));
    completed = loop.completed();
    if (static_cast<int>(rates.size()) >= kMinBatches) {
      half_width = relative_half_width(rates);
      if (half_width < kTargetHalfWidth) break;
    }
  }
  const ChannelCounters after = loop.counters();
  double rate = 0;  // requests a tick
  for (const double sample : rates) rate += sample / static_cast<double>(rates.size());
  const double columns = static_cast<double>(after.reads + after.writes - before.reads - before.writes);
  MemoryPerformance result;
  result.bytes_per_second =
      rate * static_cast<double>(burst) / loop.timings().tick_seconds / share * stream.useful_share();
  result.peak_fraction = result.bytes_per_second / device.peak_bytes_per_second();
  result.row_hit_rate = columns > 0 ? 1.0 - static_cast<double>(after.activates - before.activates) / columns : 0.0;
  result.relative_half_width = half_width;
  return result;
}

class DetailedMemory : public MemoryModel {
 public:
  explicit DetailedMemory(MemoryDevice device) : device_(std::move(device)) {}
  MemoryPerformance measure(const AccessPattern& pattern) override {
    check_pattern(pattern);
    return simulate(device_, pattern, device_.num_channels);
  }

 private:
  MemoryDevice device_;
};

class SampledMemory : public MemoryModel {
 public:
  SampledMemory(MemoryDevice device, const std::filesystem::path& signatures)
      : device_(std::move(device)), store_(signatures, device_), known_(store_.known()) {}

  MemoryPerformance measure(const AccessPattern& pattern) override {
    check_pattern(pattern);
    {
      const std::lock_guard lock(mutex_);
      ++statistics_.num_lookups;
      if (const auto known = known_.find(pattern); known != known_.end()) {
        ++statistics_.num_known;
        return known->second;
      }
    }
    // Two threads may simulate the same new signature at once; both get the same result.
    const MemoryPerformance result = simulate(device_, pattern, num_subset_channels(pattern));
    const std::lock_guard lock(mutex_);
    statistics_.worst_half_width = std::max(statistics_.worst_half_width, result.relative_half_width);
    const auto [entry, is_new] = known_.emplace(pattern, result);
    if (is_new) store_.add(pattern, result);
    return entry->second;
  }

  [[nodiscard]] SignatureStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  /// How many channels stand for all of them. Two things are lost in a small part, both make it look faster:
  /// - the pieces in flight spread less unevenly. A closed network of N servers with k customers each is busy for
  ///   k / (k + 1 - 1 / N) of the time (exponential service), so N servers look 1 / (N (k + 1)) too fast: N is chosen
  ///   for 1 %;
  /// - pieces that a stream reads one after the other lie on as many channels, until there are no more channels: the
  ///   part keeps twice as many.
  /// Example, 80 HBM3 channels, 4 KiB chunks of 512 streams, 4 MiB in flight: 16,384 pieces, 102 per pseudo channel:
  /// N >= 100 / 103, one; a stream has min(16, 32) = 16 of them: 32 channels.
  [[nodiscard]] std::int64_t num_subset_channels(const AccessPattern& pattern) const {
    const double piece_bytes = std::min(kPieceBytes, static_cast<double>(pattern.chunk_bytes));
    const double num_pieces = static_cast<double>(pattern.bytes_in_flight) / piece_bytes;
    const double per_server = num_pieces / static_cast<double>(device_.num_pseudo_channels());
    const double per_stream = std::min(static_cast<double>(pattern.chunk_bytes) / piece_bytes,
                                       num_pieces / static_cast<double>(pattern.num_streams));
    const double for_balance =
        100.0 / (per_server + 1.0) / static_cast<double>(device_.standard.geometry.num_pseudo_channels);
    const double needed = std::max(for_balance, 2.0 * per_stream);
    std::int64_t channels = kSubsetChannels;
    while (static_cast<double>(channels) < needed && channels < device_.num_channels) channels *= 2;
    // Whole streams in the part, or all of the device.
    while (channels < device_.num_channels && device_.num_channels / channels > pattern.num_streams / 2) channels *= 2;
    return std::min(channels, device_.num_channels);
  }

  MemoryDevice device_;
  mutable std::mutex mutex_;
  SignatureStatistics statistics_;
  SignatureStore store_;
  KnownSignatures known_;
};

class RooflineMemory : public MemoryModel {
 public:
  explicit RooflineMemory(const MemoryDevice& device)
      : performance_{.bytes_per_second = device.peak_bytes_per_second() * device.roofline_efficiency,
                     .peak_fraction = device.roofline_efficiency,
                     .row_hit_rate = std::nan(""),
                     .relative_half_width = 0} {}
  MemoryPerformance measure(const AccessPattern& pattern) override {
    check_pattern(pattern);
    return performance_;
  }

 private:
  MemoryPerformance performance_;
};

}  // namespace

void MemoryDevice::validate() const {
  standard.validate();
  if (num_channels < 1 || num_channels > 4096) {
    throw InputError(fmt::format("memory device: {} channels: expected 1..4096", num_channels));
  }
  if (!(data_rate >= 1e8 && data_rate <= 1e12)) {
    throw InputError(fmt::format("memory device: data rate {} bit/s per pin: expected 1e8..1e12", data_rate));
  }
  if (queue_size < 1 || queue_size > 4096) {
    throw InputError(fmt::format("memory device: queue size {}: expected 1..4096", queue_size));
  }
  if (refresh == RefreshMode::per_bank && standard.timings.rfc_pb.seconds <= 0 && standard.timings.rfc_pb.clocks <= 0) {
    throw InputError(fmt::format("memory device: {} has no refresh of one bank (rfc_pb)", standard.name));
  }
  if (!(roofline_efficiency > 0 && roofline_efficiency <= 1)) {
    throw InputError(fmt::format("memory device: roofline efficiency {}: expected (0, 1]", roofline_efficiency));
  }
}

std::unique_ptr<MemoryModel> make_memory_model(const MemoryDevice& device, Fidelity fidelity,
                                               const std::filesystem::path& signatures) {
  device.validate();
  switch (fidelity) {
    case Fidelity::detailed:
      return std::make_unique<DetailedMemory>(device);
    case Fidelity::sampled:
      return std::make_unique<SampledMemory>(device, signatures);
    case Fidelity::roofline:
      return std::make_unique<RooflineMemory>(device);
  }
  throw InputError("unknown fidelity");
}

}  // namespace kvtide::gpu
