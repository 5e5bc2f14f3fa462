#pragma once
// All channels of a device fed by one stream that keeps a fixed number of requests outstanding.
//
// Requests enter in stream order; the next one enters the tick after an earlier one ended. Since a read ends at least
// read_latency ticks after its column command, what enters within such a span is known at its start, and the channels
// run through it one after the other without looking at each other.

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/memory/address_map.h"
#include "gpu/memory/channel_controller.h"
#include "gpu/memory/memory_device.h"
#include "gpu/memory/request_stream.h"

namespace kvtide::gpu {

struct ClosedLoopSettings {
  AddressMapping mapping = AddressMapping::hash256;
  ControllerSettings controller;
  std::int64_t max_outstanding = 4096;    ///< > 0
  std::int64_t num_requests = INT64_MAX;  ///< the stream ends after so many
};

class ClosedLoop {
 public:
  /// @param source  must outlive this object
  ClosedLoop(const MemoryDevice& device, const ClosedLoopSettings& settings, RequestSource& source);

  /// Runs until simulated tick `end`, or until every request has ended.
  void run_until(Tick end);
  void run_to_completion() { run_until(ChannelController::kNever); }

  [[nodiscard]] std::int64_t completed() const { return completed_; }
  /// Tick at which the latest request ended.
  [[nodiscard]] Tick last_completion() const { return last_completion_; }
  [[nodiscard]] const CommandTimings& timings() const { return timings_; }
  [[nodiscard]] const AddressMap& map() const { return map_; }
  /// Sum over the channels.
  [[nodiscard]] ChannelCounters counters() const;
  /// completed * burst bytes / time / peak.
  [[nodiscard]] double peak_fraction() const;

 private:
  void step();
  void inject(Tick tick);

  MemoryDevice device_;
  ClosedLoopSettings settings_;
  RequestSource* source_;
  CommandTimings timings_;
  AddressMap map_;
  int unit_shift_, burst_shift_;  // log2 of the bytes of an interleave unit and of a burst
  Tick span_;
  CompletionCalendar completions_;
  std::vector<ChannelController> channels_;
  RequestRun run_;         // not yet injected rest of the current run
  DramLocation location_;  // of the run's current interleave unit
  std::uint64_t located_ = UINT64_MAX;
  Tick now_ = 0;
  std::int64_t injected_ = 0, completed_ = 0;
  Tick last_completion_ = 0;
};

}  // namespace kvtide::gpu
