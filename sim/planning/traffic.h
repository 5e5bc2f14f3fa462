#pragma once
// The workload as a list of requests, and the part of it that one of several replicas serves.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiment/serving_setting.h"
#include "model/model.h"
#include "serving/request.h"
#include "serving/request_source.h"

namespace kvtide::planning {

/// Of all requests, tokens; the longest prompt need not be that of the longest request.
struct Longest {
  std::int64_t prompt = 0, total = 0;
};

struct Traffic {
  serving::RequestTrace trace;
  /// Requests/s, rate_scale included; of poisson and gamma what was asked for, not what a draw came to.
  double mean_rate = 0;
  bool has_times = true;  ///< of arrival; else the gaps are drawn, and mean_rate means nothing
  double mean_input = 0, mean_output = 0;
  Longest longest;
  std::int64_t truncated = 0, dropped = 0;

  /// Tokens in the cache of a request half way through its output.
  [[nodiscard]] double mean_context() const { return mean_input + mean_output / 2; }
};

/// Every output that many times as long, at least one token. @param factor  > 0
[[nodiscard]] Traffic with_longer_outputs(const Traffic& traffic, double factor);

/// Requests of a file, or drawn. A file without times gets exponential gaps.
/// @throws InputError  too long for the model and `long_requests: refuse`; closed_loop, whose rate is no input
[[nodiscard]] Traffic load_traffic(const experiment::ServingSetting& setting, const Model& model, std::uint64_t seed);

/// Arrivals rescaled so that the whole traffic has `rate` requests/s; every `replicas`-th of them (a router that deals them round);
/// of these the `sample` neighbours that bring the most tokens a second, or all. At least one request, however many replicas.
///
/// Example: 19,366 requests at 5.53 /s, asked 22.1 /s on 4 replicas: time runs 4 times as fast, a replica gets 4,842 requests at 5.53 /s.
[[nodiscard]] serving::RequestTrace replica_share(const Traffic& traffic, double rate, std::int64_t replicas,
                                                  std::int64_t sample);

/// All that one of `replicas` gets of the rescaled traffic, dealt round.
///
/// Example: requests 1 s apart at 4 /s on 2 replicas: replica 1 gets every second one from 0.25 s on, 0.5 s apart.
class ShareSource : public serving::RequestSource {
 public:
  /// @param traffic  outlives this object  @param replica  0..replicas-1; there is nothing where it is beyond the requests
  ShareSource(const Traffic& traffic, double rate, std::int64_t replicas, std::int64_t replica);
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override;
  [[nodiscard]] serving::Request take() override;

 private:
  const std::vector<serving::Request>& requests_;
  std::size_t stride_, next_;
  double stretch_ = 1;
};

/// Requests without their shared blocks, each once the one before has its answer: nobody shares a step.
class AloneSource : public serving::RequestSource {
 public:
  /// @param requests  outlive this object
  explicit AloneSource(std::span<const serving::Request> requests) : requests_(requests) {}
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override;
  [[nodiscard]] serving::Request take() override;
  void on_finish(Picoseconds now) override;
  [[nodiscard]] bool reacts_to_finishes() const override { return next_ < requests_.size(); }

 private:
  std::span<const serving::Request> requests_;
  std::size_t next_ = 0;
  Picoseconds free_at_{0};
  bool is_answering_ = false;
};

}  // namespace kvtide::planning
