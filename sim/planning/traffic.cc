#include "planning/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "serving/workload.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kBlockTokens = 16;  // of ids of drawn prefixes

void summarize(Traffic& traffic) {
  double input = 0, output = 0;
  traffic.longest = {};
  for (const serving::Request& request : traffic.trace.requests) {
    input += static_cast<double>(request.input_tokens);
    output += static_cast<double>(request.output_tokens);
    traffic.longest.prompt = std::max(traffic.longest.prompt, request.input_tokens);
    traffic.longest.total = std::max(traffic.longest.total, request.input_tokens + request.output_tokens);
  }
  const auto count = static_cast<double>(traffic.trace.requests.size());
  traffic.mean_input = input / count;
  traffic.mean_output = output / count;
}

}  // namespace

Traffic with_longer_outputs(const Traffic& traffic, double factor) {
  Traffic longer = traffic;
  for (serving::Request& request : longer.trace.requests) {
    request.output_tokens =
        std::max<std::int64_t>(1, std::llround(static_cast<double>(request.output_tokens) * factor));
  }
  summarize(longer);
  return longer;
}

Traffic load_traffic(const experiment::ServingSetting& setting, const Model& model, std::uint64_t seed) {
  const auto refuse = [](bool is_there, const char* key) {
    if (is_there) throw InputError(fmt::format("{}: not part of a plan; kvtide run has it", key));
  };
  refuse(setting.replicas > 1, "engine.data_parallel");
  refuse(setting.prefill_replicas > 0, "engine.disaggregation");
  refuse(setting.front.exists(), "workload.front");
  const std::int64_t limit = setting.max_model_len > 0 ? setting.max_model_len : model.max_positions;
  Traffic traffic;
  serving::RequestTrace trace;
  if (!setting.requests.empty()) {
    trace = serving::load_requests(setting.requests);
  } else {
    if (setting.drawn.arrivals == serving::ArrivalKind::closed_loop) {
      throw InputError("workload: closed_loop has no rate to plan for: its users wait for answers");
    }
    const auto source = serving::draw_requests(setting.drawn, kBlockTokens, mix64(seed), limit);
    while (source->next_arrival()) trace.requests.push_back(source->take());
    trace.shared_block_tokens = setting.drawn.prefixes.empty() ? 0 : kBlockTokens;
  }
  serving::LimitedTrace limited = serving::limit_requests(std::move(trace), limit, setting.long_requests,
                                                          setting.requests.empty() ? "workload" : setting.requests);
  traffic.trace = std::move(limited.trace);
  traffic.truncated = limited.truncated;
  traffic.dropped = limited.dropped;
  std::vector<serving::Request>& requests = traffic.trace.requests;
  if (requests.size() < 2) throw InputError("workload: fewer than two requests");
  traffic.has_times = requests.back().arrival > requests.front().arrival;
  if (!traffic.has_times) {
    RandomStream random(seed, "plan_arrivals");
    double seconds = 0;
    for (serving::Request& request : requests) {
      request.arrival = from_seconds(seconds);
      seconds -= std::log(1 - random.uniform());
    }
  }
  const double span = to_seconds(requests.back().arrival - requests.front().arrival);
  // A few hundred gaps average up to a fifth beside the rate they were drawn for. A ramp has no rate of its own.
  const bool has_rate = setting.requests.empty() && setting.drawn.arrivals != serving::ArrivalKind::ramp;
  const double rate = has_rate ? setting.drawn.rate : static_cast<double>(requests.size() - 1) / span;
  traffic.mean_rate = rate * setting.rate_scale;
  summarize(traffic);
  return traffic;
}

serving::RequestTrace replica_share(const Traffic& traffic, double rate, std::int64_t replicas, std::int64_t sample) {
  const std::vector<serving::Request>& all = traffic.trace.requests;
  const auto stride = static_cast<std::size_t>(replicas);
  const std::size_t share = (all.size() + stride - 1) / stride;
  const std::size_t count = std::min(share, static_cast<std::size_t>(sample));
  // Most tokens a second of trace time.
  std::size_t best = 0;
  if (count < share) {
    double tokens = 0, most = -1;
    const auto tokens_of = [&](std::size_t i) {
      return static_cast<double>(all[i * stride].input_tokens + all[i * stride].output_tokens);
    };
    for (std::size_t i = 0; i < share; ++i) {
      tokens += tokens_of(i);
      if (i + 1 < count) continue;
      const std::size_t first = i + 1 - count;
      const double span = to_seconds(all[i * stride].arrival - all[first * stride].arrival) + 1e-6;
      if (tokens / span > most) most = tokens / span, best = first;
      tokens -= tokens_of(first);
    }
  }
  const std::size_t whole = all.size() - 1;
  const double span = to_seconds(all.back().arrival - all.front().arrival);
  const double stretch = static_cast<double>(whole) / span / rate;
  serving::RequestTrace part;
  part.shared_block_tokens = traffic.trace.shared_block_tokens;
  part.requests.reserve(count);
  const Picoseconds begin = all[best * stride].arrival;
  for (std::size_t i = best; i < best + count; ++i) {
    part.requests.push_back(all[i * stride]);
    part.requests.back().arrival = from_seconds(to_seconds(all[i * stride].arrival - begin) * stretch);
  }
  return part;
}

ShareSource::ShareSource(const Traffic& traffic, double rate, std::int64_t replicas, std::int64_t replica)
    : requests_(traffic.trace.requests),
      stride_(static_cast<std::size_t>(replicas)),
      next_(static_cast<std::size_t>(replica)) {
  const double span = to_seconds(requests_.back().arrival - requests_.front().arrival);
  stretch_ = static_cast<double>(requests_.size() - 1) / span / rate;
}

std::optional<Picoseconds> ShareSource::next_arrival() const {
  if (next_ >= requests_.size()) return std::nullopt;
  return from_seconds(to_seconds(requests_[next_].arrival - requests_.front().arrival) * stretch_);
}

serving::Request ShareSource::take() {
  serving::Request request = requests_[next_];
  request.arrival = *next_arrival();
  next_ += stride_;
  return request;
}

std::optional<Picoseconds> AloneSource::next_arrival() const {
  if (is_answering_ || next_ == requests_.size()) return std::nullopt;
  return free_at_;
}

serving::Request AloneSource::take() {
  serving::Request request = requests_[next_++];
  request.shared_blocks.clear();
  request.arrival = free_at_;
  is_answering_ = true;
  return request;
}

void AloneSource::on_finish(Picoseconds now) {
  free_at_ = now;
  is_answering_ = false;
}

}  // namespace kvtide::planning
