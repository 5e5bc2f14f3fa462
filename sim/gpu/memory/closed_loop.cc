#include "gpu/memory/closed_loop.h"

#include <algorithm>
#include <bit>

namespace kvtide::gpu {

ClosedLoop::ClosedLoop(const MemoryDevice& device, const ClosedLoopSettings& settings, RequestSource& source)
    : device_(device),
      settings_(settings),
      source_(&source),
      timings_(command_timings(device.standard, device.data_rate)),
      map_(device.standard.geometry, device.num_channels, settings.mapping),
      unit_shift_(std::countr_zero(map_.interleave())),
      burst_shift_(std::countr_zero(device.standard.geometry.burst_bytes())),
      span_(timings_.read_latency),
      completions_(3 * span_) {
  channels_.reserve(static_cast<std::size_t>(device.num_channels));
  for (std::int64_t i = 0; i < device.num_channels; ++i) {
    channels_.emplace_back(device.standard.geometry, timings_, settings.controller);
  }
}

void ClosedLoop::inject(Tick tick) {
  const MemoryGeometry& geometry = device_.standard.geometry;
  std::int64_t room =
      std::min(settings_.max_outstanding - (injected_ - completed_), settings_.num_requests - injected_);
  while (room > 0) {
    if (run_.num_bursts == 0) run_ = source_->next();
    const std::uint64_t unit = run_.address >> unit_shift_;
    if (unit != located_) {
      location_ = map_.locate(run_.address);
      located_ = unit;
    }
    const auto left_in_unit = static_cast<std::int64_t>((((unit + 1) << unit_shift_) - run_.address) >> burst_shift_);
    const std::int64_t num_bursts = std::min({run_.num_bursts, left_in_unit, room});
    const auto bank =
        (location_.stack_id * geometry.num_bank_groups + location_.bank_group) * geometry.num_banks + location_.bank;
    channels_[static_cast<std::size_t>(location_.channel)].arrive(
        {.arrival = tick,
         .num_bursts = static_cast<std::int32_t>(num_bursts),
         .row = location_.row,
         .pseudo_channel = static_cast<std::uint8_t>(location_.pseudo_channel),
         .bank = static_cast<std::uint8_t>(bank),
         .is_write = run_.is_write});
    run_.address += static_cast<std::uint64_t>(num_bursts) << burst_shift_;
    run_.num_bursts -= num_bursts;
    injected_ += num_bursts;
    room -= num_bursts;
  }
}

void ClosedLoop::step() {
  const Tick end = now_ + span_;
  if (now_ == 0) inject(0);
  for (Tick tick = now_; tick < end; ++tick) {
    const std::int64_t ended = completions_.take(tick);
    if (ended == 0) continue;
    completed_ += ended;
    last_completion_ = tick;
    inject(tick + 1);
  }
  Tick next = ChannelController::kNever;
  for (ChannelController& channel : channels_) {
    if (channel.next_event() < end) channel.run_until(end, completions_);
    next = std::min(next, channel.next_event());
  }
  // Nothing can happen before the channels' next event or the next completion: skip to it.
  now_ = end;
  if (next > end) {
    Tick quiet = end;
    while (quiet < std::min(next, end + span_) && completions_.peek(quiet) == 0) ++quiet;
    now_ = quiet == end + span_ ? next : quiet;
  }
}

void ClosedLoop::run_until(Tick end) {
  while (now_ < end && completed_ < settings_.num_requests) step();
}

ChannelCounters ClosedLoop::counters() const {
  ChannelCounters sum;
  for (const ChannelController& channel : channels_) {
    const ChannelCounters& part = channel.counters();
    sum.reads += part.reads;
    sum.writes += part.writes;
    sum.activates += part.activates;
    sum.row_hits += part.row_hits;
    sum.refreshes += part.refreshes;
    sum.read_latency += part.read_latency;
  }
  return sum;
}

double ClosedLoop::peak_fraction() const {
  const double seconds = static_cast<double>(last_completion_ + 1) * timings_.tick_seconds;
  const double bytes = static_cast<double>(completed_) * static_cast<double>(device_.standard.geometry.burst_bytes());
  return bytes / seconds / device_.peak_bytes_per_second();
}

}  // namespace kvtide::gpu
