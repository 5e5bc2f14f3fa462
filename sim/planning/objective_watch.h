#pragma once
// Objectives watched while requests are replayed, so that a hopeless replay ends early.
//
// `ttft_p95: 500 ms` over N requests is broken for certain once the order statistic floor(0.95 (N - 1)) is late itself. Example: of 101
// requests that is number 95 of 0..100: five late ones take 96..100, the sixth breaks the objective.

#include <cstdint>
#include <string>
#include <vector>

#include "planning/experience.h"
#include "serving/serving_run.h"
#include "serving/serving_statistics.h"

namespace kvtide::planning {

class ObjectiveWatch {
 public:
  /// @param requests  all that will be replayed  @param ttft_offset  s that a client waits beyond the engine
  ObjectiveWatch(const std::vector<Objective>& objectives, const std::vector<serving::Request>& requests,
                 double ttft_offset);

  /// For each replay of a part of them; refer to this object.
  [[nodiscard]] serving::ServeOptions options(std::int64_t shared_block_tokens);
  /// A replay has ended.
  void add(const serving::ServingOutcome& outcome);
  [[nodiscard]] bool is_broken() const { return !broken_.empty(); }
  [[nodiscard]] Experience experience() const;

 private:
  struct Watched {
    Objective objective;
    std::int64_t requests = 0;   // that it is about
    std::int64_t late = 0;       // so far
    std::int64_t most_late = 0;  // one more breaks it
  };
  bool observe(const serving::RequestTimes& times, bool is_last);

  std::vector<Watched> watched_;
  double ttft_offset_;
  std::string broken_;
  serving::ServingSample sample_;
  Experience totals_;  // of finished replays; latencies are in sample_
};

}  // namespace kvtide::planning
