#include "planning/objective_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvtide::planning {
namespace {

Latencies latencies(const serving::LatencyFigures& figures, double offset) {
  return {figures.p50 + offset, figures.p90 + offset, figures.p95 + offset, figures.p99 + offset};
}

}  // namespace

double Latencies::at(std::int64_t percentile) const {
  return percentile == 50 ? p50 : percentile == 90 ? p90 : percentile == 95 ? p95 : p99;
}

std::string milliseconds_text(double seconds) {
  const double ms = seconds * 1e3;
  return ms < 99.95 ? fmt::format("{:.3g}", ms) : fmt::format("{:.0f}", ms);
}

const Latencies& Experience::of(Metric metric) const {
  return metric == Metric::ttft ? ttft : metric == Metric::tpot ? tpot : latency;
}

ObjectiveWatch::ObjectiveWatch(const std::vector<Objective>& objectives, const std::vector<serving::Request>& requests,
                               double ttft_offset)
    : ttft_offset_(ttft_offset), sample_({}) {
  const auto all = static_cast<std::int64_t>(requests.size());
  const auto with_gaps = std::ranges::count_if(requests, [](const auto& one) { return one.output_tokens > 1; });
  for (const Objective& objective : objectives) {
    Watched watched{.objective = objective, .requests = objective.metric == Metric::tpot ? with_gaps : all};
    watched.most_late =
        watched.requests - objective.percentile * std::max<std::int64_t>(0, watched.requests - 1) / 100 - 1;
    watched_.push_back(watched);
  }
}

bool ObjectiveWatch::observe(const serving::RequestTimes& times, bool is_last) {
  for (Watched& watched : watched_) {
    const Metric metric = watched.objective.metric;
    if (is_last == (metric == Metric::ttft)) continue;  // told at the first token, or at the last
    if (metric == Metric::tpot && times.output_tokens < 2) continue;
    const double seconds = metric == Metric::ttft   ? to_seconds(times.ttft()) + ttft_offset_
                           : metric == Metric::tpot ? times.tpot_seconds()
                                                    : to_seconds(times.latency()) + ttft_offset_;
    if (seconds <= watched.objective.seconds || ++watched.late <= watched.most_late || !broken_.empty()) continue;
    broken_ =
        fmt::format("{} over {} ms: {} of {} requests are late, allowed {}", watched.objective.name(),
                    milliseconds_text(watched.objective.seconds), watched.late, watched.requests, watched.most_late);
  }
  return !broken_.empty();
}

serving::ServeOptions ObjectiveWatch::options(std::int64_t shared_block_tokens) {
  serving::ServeOptions options;
  options.shared_block_tokens = shared_block_tokens;
  options.on_request = [this](const serving::RequestTimes& times) { sample_.add(times); };
  options.stops_at = [this](const serving::RequestTimes& times, bool is_last) { return observe(times, is_last); };
  return options;
}

void ObjectiveWatch::add(const serving::ServingOutcome& outcome) {
  totals_.used_share = std::max(totals_.used_share, outcome.max_used_share);
  totals_.preemptions += outcome.counters.preemptions;
  totals_.max_running = std::max(totals_.max_running, outcome.max_running);
  totals_.requests += outcome.num_requests;
}

Experience ObjectiveWatch::experience() const {
  Experience experience = totals_;
  experience.broken = broken_;
  if (is_broken()) {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    experience.ttft = experience.tpot = experience.latency = {kUnknown, kUnknown, kUnknown, kUnknown};
    return experience;
  }
  const serving::ServingFigures figures = sample_.figures(Picoseconds{1});  // rates are not asked for
  experience.ttft = latencies(figures.ttft, ttft_offset_);
  experience.tpot = latencies(figures.tpot, 0);
  experience.latency = latencies(figures.latency, ttft_offset_);
  // Between two order statistics the percentile may lie above where both neighbours' count allowed it.
  for (const Watched& watched : watched_) {
    const Objective& objective = watched.objective;
    const double seconds = experience.of(objective.metric).at(objective.percentile);
    if (std::isnan(seconds) || seconds <= objective.seconds) continue;  // NaN: nobody has a second token
    experience.broken = fmt::format("{} {} ms, allowed {} ms", objective.name(), milliseconds_text(seconds),
                                    milliseconds_text(objective.seconds));
    break;
  }
  return experience;
}

}  // namespace kvtide::planning
