#pragma once
// SGLang's estimate of the output to come (release 0.5.23, managers/scheduler_components/new_token_ratio_tracker.py): an admission keeps
// free this share of what the running requests may still generate.
//
// Example: 0.7 at first; 0.699 after one decode step; 0.098, the least, from 600 on; 0.7 again once the engine has been idle. After a
// retraction that leaves two requests with 80 of 1,000 tokens each: (160 + 2 x 20) / (2,000 + 1) = 0.0999.

#include <algorithm>
#include <cstdint>

namespace kvtide::serving {

class OutputEstimate {
 public:
  static constexpr double kFirst = 0.7, kLeast = 0.14 * kFirst;
  static constexpr double kStep = (kFirst - kLeast) / 600;
  static constexpr std::int64_t kStepsAfterRetraction = 20;  ///< that everybody is granted before the next one

  [[nodiscard]] double share(std::int64_t steps_later = 0) const {
    const std::int64_t steps = num_steps_ + steps_later;  // right after a retraction it may be less than the least
    return steps == 0 ? begin_ : std::max(kLeast, begin_ - kStep * static_cast<double>(steps));
  }
  void on_decode(std::int64_t steps) { num_steps_ += steps; }
  /// @param generated, whole  output tokens of the requests that still run
  void on_retraction(std::int64_t num_running, std::int64_t generated, std::int64_t whole) {
    const auto granted = static_cast<double>(generated + num_running * kStepsAfterRetraction);
    begin_ = std::min(1.0, granted / static_cast<double>(whole + 1));
    num_steps_ = 0;
  }

 private:
  double begin_ = kFirst;
  std::int64_t num_steps_ = 0;
};

}  // namespace kvtide::serving
