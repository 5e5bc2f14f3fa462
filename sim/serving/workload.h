#pragma once
// Requests drawn from distributions. Every draw comes from a named stream of the seed, so that a change of one distribution moves
// nothing else.
//
//   poisson      exponential gaps at `rate`
//   gamma        gaps of the same mean and a coefficient of variation `cv`: above 1 bursts, below 1 a pace
//   ramp         a Poisson process whose rate goes from `rate` to `end_rate` over the requests
//   closed_loop  `users` ask, read, think for an exponential time of mean `think_seconds` and ask again

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "serving/request_source.h"

namespace kvtide::serving {

struct LengthDistribution {
  enum class Kind : std::uint8_t { fixed, lognormal, uniform };
  Kind kind = Kind::fixed;
  double mean = 256;         ///< fixed, lognormal
  double cv = 1;             ///< lognormal: standard deviation / mean
  double low = 1, high = 1;  ///< uniform, both included

  /// >= 1. Lognormal: exp(mu + sigma z), sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2 / 2.
  [[nodiscard]] std::int64_t draw(RandomStream& random) const;
  /// Mean of the draws, tokens.
  [[nodiscard]] double expected() const { return kind == Kind::uniform ? (low + high) / 2 : mean; }
  bool operator==(const LengthDistribution&) const = default;
};

enum class ArrivalKind : std::uint8_t { poisson, gamma, ramp, closed_loop };
[[nodiscard]] std::string to_string(ArrivalKind value);

/// Beginnings that requests share: system prompts, greetings, few-shot examples.
struct SharedPrefix {
  std::int64_t tokens = 0;  ///< 0: none
  double share = 1;         ///< of the requests
  bool operator==(const SharedPrefix&) const = default;
};

/// Requests of one urgency.
struct PriorityClass {
  std::int64_t priority = 0;  ///< the lower the sooner
  double share = 1;           ///< of the requests
  bool operator==(const PriorityClass&) const = default;
};

struct SyntheticWorkload {
  ArrivalKind arrivals = ArrivalKind::poisson;
  double rate = 1;      ///< requests/s
  double end_rate = 1;  ///< ramp
  double cv = 1;        ///< gamma
  std::int64_t users = 1;
  double think_seconds = 0;
  LengthDistribution input{}, output{};
  std::vector<SharedPrefix> prefixes{};     ///< shares add up to at most 1; inside the input's tokens
  std::vector<PriorityClass> priorities{};  ///< shares add up to at most 1; the rest has 0
  std::int64_t num_requests = 1000;
  bool operator==(const SyntheticWorkload&) const = default;
};

/// What happens to requests that the model cannot hold.
enum class LongRequests : std::uint8_t { refuse, truncate, drop };
[[nodiscard]] std::string to_string(LongRequests value);

/// @param block_tokens  of the engine: ids of shared prefixes name blocks of that size
/// @param most_tokens  no prompt shares more than that, however long it was drawn: what follows is cut away
/// @param policy  drop: longer requests are left out; truncate: those whose output alone is too long (CutSource cuts the others).
/// They count among the workload's requests; a user of a closed loop asks the next one in their place. refuse: all as they are
/// drawn, check_lengths() is for the caller
[[nodiscard]] std::unique_ptr<RequestSource> draw_requests(const SyntheticWorkload& workload, std::int64_t block_tokens,
                                                           std::uint64_t seed,
                                                           std::int64_t most_tokens = std::int64_t{1} << 28,
                                                           LongRequests policy = LongRequests::refuse);

/// Cuts prompts of another source to the model's limit, as `truncate` does.
class CutSource : public RequestSource {
 public:
  /// @param source  outlives this object  @param limit  prompt and output, >= 2
  CutSource(RequestSource& source, std::int64_t limit) : source_(source), limit_(limit) {}
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override { return source_.next_arrival(); }
  [[nodiscard]] Request take() override;
  void on_finish(Picoseconds now) override { source_.on_finish(now); }
  [[nodiscard]] std::int64_t num_dropped() const override { return source_.num_dropped(); }
  [[nodiscard]] bool reacts_to_finishes() const override { return source_.reacts_to_finishes(); }
  [[nodiscard]] std::int64_t num_cut() const { return num_cut_; }

 private:
  RequestSource& source_;
  std::int64_t limit_;
  std::int64_t num_cut_ = 0;
};

struct LimitedTrace {
  RequestTrace trace;
  std::int64_t truncated = 0, dropped = 0;
};

/// Draws all requests. @throws InputError  some are longer than the model's limit: how many, and the largest length
void check_lengths(const SyntheticWorkload& workload, std::uint64_t seed, std::int64_t max_model_len);

/// Prompts are cut so that prompt and output fit; a request whose output alone does not fit is dropped.
/// @throws InputError  refuse: how many are too long, the first one's line (a header line is line 1) and the largest length
[[nodiscard]] LimitedTrace limit_requests(RequestTrace trace, std::int64_t max_model_len, LongRequests policy,
                                          const std::string& path);

}  // namespace kvtide::serving
