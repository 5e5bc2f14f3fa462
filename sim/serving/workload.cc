#include "serving/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/error.h"
#include "serving/simulated_time.h"

namespace kvtide::serving {
namespace {

constexpr double kMaxTokens = 1 << 28;

double exponential(RandomStream& random, double mean) {
  return -std::log(1 - random.uniform()) * mean;
}

/// Marsaglia and Tsang (2000); shapes below 1 by the power of a uniform.
double gamma(RandomStream& random, double shape) {
  if (shape < 1) {
    const double u = 1 - random.uniform();
    return gamma(random, shape + 1) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
    if (v <= 0) continue;
    const double u = 1 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

bool is_long(const Request& request, std::int64_t limit) {
  return request.input_tokens + request.output_tokens > limit;
}

/// Rather than cut, which needs a prompt token beside the output.
bool is_left_out(const Request& request, std::int64_t limit, LongRequests policy) {
  if (policy == LongRequests::refuse || !is_long(request, limit)) return false;
  return policy == LongRequests::drop || request.output_tokens >= limit;
}

/// Requests that are longer than the model's limit.
struct TooLong {
  std::int64_t count = 0, longest = 0;
  std::int64_t first_line = 0;  // of a file; 0: drawn

  void add(const Request& request) {
    if (++count == 1 || request.line < first_line) first_line = request.line;
    longest = std::max(longest, request.input_tokens + request.output_tokens);
  }
  [[noreturn]] void refuse(std::int64_t num_requests, std::int64_t limit, const std::string& name) const {
    const std::string place = first_line > 0 ? fmt::format("{}:{}", name, first_line) : name;
    throw InputError(fmt::format(
        "{}: {} of {} requests are longer than the model's limit of {} tokens (the longest has {}){}. Allowed: "
        "long_requests: truncate or drop",
        place, count, num_requests, limit, longest, first_line > 0 ? "; this is the first" : ""));
  }
};

class Drawn : public RequestSource {
 public:
  Drawn(const SyntheticWorkload& workload, std::int64_t block_tokens, std::uint64_t seed, std::int64_t most_tokens,
        LongRequests policy)
      : workload_(workload),
        block_tokens_(block_tokens),
        most_tokens_(most_tokens),
        policy_(policy),
        gaps_(seed, "arrival gaps"),
        inputs_(seed, "input lengths"),
        outputs_(seed, "output lengths"),
        prefixes_(seed, "prefixes"),
        priorities_(seed, "priorities") {
    if (workload.arrivals == ArrivalKind::closed_loop) {
      for (std::int64_t user = 0; user < workload.users; ++user) {
        due_.push(workload.think_seconds > 0 ? from_seconds(exponential(gaps_, workload.think_seconds))
                                             : Picoseconds{0});
      }
    } else {
      advance();
    }
    draw_next();
  }

  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override {
    if (num_taken_ == workload_.num_requests) return std::nullopt;
    if (workload_.arrivals != ArrivalKind::closed_loop) return from_seconds(now_);
    return due_.empty() ? std::nullopt : std::optional(due_.top());
  }

  [[nodiscard]] Request take() override {
    Request request = std::move(next_);
    request.arrival = *next_arrival();
    ++num_taken_;
    if (workload_.arrivals == ArrivalKind::closed_loop) {
      due_.pop();
    } else {
      advance();
    }
    draw_next();
    return request;
  }

  void on_finish(Picoseconds now) override {
    if (workload_.arrivals != ArrivalKind::closed_loop || num_taken_ == workload_.num_requests) return;
    const double thinking = workload_.think_seconds > 0 ? exponential(gaps_, workload_.think_seconds) : 0;
    check_time(to_seconds(now) + thinking);
    due_.push(now + from_seconds(thinking));
  }

  [[nodiscard]] std::int64_t num_dropped() const override { return num_dropped_; }
  [[nodiscard]] bool reacts_to_finishes() const override {
    return workload_.arrivals == ArrivalKind::closed_loop && num_taken_ < workload_.num_requests;
  }

 private:
  /// What is asked next, whoever asks it and when. Those left out take their times of arrival with them.
  void draw_next() {
    while (num_taken_ < workload_.num_requests) {
      next_ = {};
      next_.input_tokens = workload_.input.draw(inputs_);
      next_.output_tokens = workload_.output.draw(outputs_);
      add_prefix(next_);
      add_priority(next_);
      if (!is_left_out(next_, most_tokens_, policy_)) return;
      ++num_dropped_;
      ++num_taken_;
      if (workload_.arrivals != ArrivalKind::closed_loop) advance();
    }
  }
  void check_time(double seconds) const {
    if (seconds <= kMaxSeconds) return;
    throw InputError(fmt::format(
        "workload: {}: request {} arrives after {:.3g} s, simulated time ends at {:.0e} s: expected a higher rate, "
        "less thinking or fewer requests",
        to_string(workload_.arrivals), num_taken_, seconds, kMaxSeconds));
  }
  void advance() {
    double rate = workload_.rate;
    if (workload_.arrivals == ArrivalKind::ramp) {
      const double share = static_cast<double>(num_taken_) / static_cast<double>(workload_.num_requests);
      rate += share * (workload_.end_rate - workload_.rate);
    }
    if (workload_.arrivals == ArrivalKind::gamma) {
      const double shape = 1 / (workload_.cv * workload_.cv);
      now_ += gamma(gaps_, shape) / (shape * rate);
    } else {
      now_ += exponential(gaps_, 1 / rate);
    }
    if (num_taken_ < workload_.num_requests) check_time(now_);
  }

  void add_prefix(Request& request) {
    double place = workload_.prefixes.empty() ? 1 : prefixes_.uniform();
    for (std::size_t index = 0; index < workload_.prefixes.size(); ++index) {
      const SharedPrefix& prefix = workload_.prefixes[index];
      if (place < prefix.share) {
        const std::int64_t blocks = std::min({prefix.tokens, request.input_tokens, most_tokens_}) / block_tokens_;
        for (std::int64_t block = 0; block < blocks; ++block) {
          request.shared_blocks.push_back((static_cast<std::uint64_t>(index) << 32) +
                                          static_cast<std::uint64_t>(block));
        }
        return;
      }
      place -= prefix.share;
    }
  }

  void add_priority(Request& request) {
    double place = workload_.priorities.empty() ? 1 : priorities_.uniform();
    for (const PriorityClass& one : workload_.priorities) {
      if (place < one.share) {
        request.priority = one.priority;
        return;
      }
      place -= one.share;
    }
  }

  SyntheticWorkload workload_;
  std::int64_t block_tokens_, most_tokens_;
  LongRequests policy_;
  RandomStream gaps_, inputs_, outputs_, prefixes_, priorities_;
  double now_ = 0;
  Request next_;
  std::int64_t num_taken_ = 0;  // those left out included
  std::int64_t num_dropped_ = 0;
  std::priority_queue<Picoseconds, std::vector<Picoseconds>, std::greater<>> due_;
};

}  // namespace

std::int64_t LengthDistribution::draw(RandomStream& random) const {
  double length = mean;
  if (kind == Kind::lognormal) {
    const double variance = std::log(1 + cv * cv);
    length = std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * random.normal());
  } else if (kind == Kind::uniform) {
    length = low + std::floor(random.uniform() * (high - low + 1));
  }
  return static_cast<std::int64_t>(std::clamp(std::round(length), 1.0, kMaxTokens));
}

std::string to_string(ArrivalKind value) {
  switch (value) {
    case ArrivalKind::poisson:
      return "poisson";
    case ArrivalKind::gamma:
      return "gamma";
    case ArrivalKind::ramp:
      return "ramp";
    case ArrivalKind::closed_loop:
      return "closed_loop";
  }
  return {};
}

std::string to_string(LongRequests value) {
  switch (value) {
    case LongRequests::refuse:
      return "refuse";
    case LongRequests::truncate:
      return "truncate";
    case LongRequests::drop:
      return "drop";
  }
  return {};
}

std::unique_ptr<RequestSource> draw_requests(const SyntheticWorkload& workload, std::int64_t block_tokens,
                                             std::uint64_t seed, std::int64_t most_tokens, LongRequests policy) {
  return std::make_unique<Drawn>(workload, block_tokens, seed, most_tokens, policy);
}

void check_lengths(const SyntheticWorkload& workload, std::uint64_t seed, std::int64_t max_model_len) {
  SyntheticWorkload lengths = workload;  // which do not depend on the times of arrival
  lengths.arrivals = ArrivalKind::poisson;
  lengths.rate = 1e6;
  TooLong too_long;
  for (Drawn source(lengths, max_model_len, seed, max_model_len, LongRequests::refuse); source.next_arrival();) {
    const Request request = source.take();
    if (is_long(request, max_model_len)) too_long.add(request);
  }
  if (too_long.count > 0) too_long.refuse(workload.num_requests, max_model_len, "workload");
}

Request CutSource::take() {
  Request request = source_.take();
  if (!is_long(request, limit_)) return request;
  ++num_cut_;
  request.output_tokens = std::min(request.output_tokens, limit_ - 1);
  request.input_tokens = limit_ - request.output_tokens;
  return request;
}

LimitedTrace limit_requests(RequestTrace trace, std::int64_t max_model_len, LongRequests policy,
                            const std::string& path) {
  LimitedTrace limited;
  TooLong too_long;
  for (const Request& request : trace.requests) {
    if (is_long(request, max_model_len)) too_long.add(request);
  }
  if (too_long.count > 0 && policy == LongRequests::refuse) {
    too_long.refuse(static_cast<std::int64_t>(trace.requests.size()), max_model_len, path);
  }
  limited.trace.shared_block_tokens = trace.shared_block_tokens;
  for (Request& request : trace.requests) {
    if (is_long(request, max_model_len)) {
      if (is_left_out(request, max_model_len, policy)) {
        ++limited.dropped;
        continue;
      }
      ++limited.truncated;
      request.input_tokens = max_model_len - request.output_tokens;
    }
    limited.trace.requests.push_back(std::move(request));
  }
  if (limited.trace.requests.empty()) throw InputError(fmt::format("{}: no request is left", path));
  return limited;
}

}  // namespace kvtide::serving
