#include "planning/rate_bound.h"

#include <algorithm>
#include <limits>

namespace kvtide::planning {
namespace {

constexpr int kLines = 100;

/// No more than what a sequence holds at a context of so many tokens, the newest included: concave, so that the mean of two ends is no
/// more than the mean between them.
double least_held(const serving::CacheGrowth& growth, double context) {
  if (!growth.frees_blocks()) return context;
  const double before = context - 1, free = std::max(0.0, before - static_cast<double>(growth.always_kept));
  return 1 + before - free * (1 - growth.keep_ratio);
}

/// The same of what it takes in blocks.
double least_room(const serving::CacheGrowth& growth, double context) {
  const double in_windows = std::min(static_cast<double>(growth.window), context) * growth.window_weight;
  return in_windows + (growth.has_whole_layers ? least_held(growth, context) : 0);
}

}  // namespace

double least_seconds(const std::vector<StepCost>& costs, double tokens, double steps) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const StepCost& cost : costs) shortest = std::min(shortest, cost.seconds);
  double most = 0;
  for (int line = 0; line <= kLines; ++line) {
    const double fixed = shortest * line / kLines;
    double each = std::numeric_limits<double>::infinity();
    for (const StepCost& cost : costs) each = std::min(each, (cost.seconds - fixed) / cost.tokens);
    most = std::max(most, fixed * steps + each * tokens);
  }
  return most;
}

std::vector<std::int64_t> step_sizes(std::int64_t most) {
  std::vector<std::int64_t> sizes{1};
  while (sizes.back() < most) {
    const std::int64_t last = sizes.back();
    sizes.push_back(last + (last < 32 ? last : last < 256 ? 32 : last < 1024 ? 64 : last < 8192 ? 128 : 1024));
  }
  return sizes;
}

MeanWork mean_work(const Traffic& traffic, const serving::CacheGrowth& growth, bool has_hits) {
  MeanWork sum;
  for (const serving::Request& request : traffic.trace.requests) {
    const auto shared = static_cast<std::int64_t>(request.shared_blocks.size()) * traffic.trace.shared_block_tokens;
    const std::int64_t found = has_hits ? std::min(shared, request.input_tokens - 1) : 0;
    const auto input = static_cast<double>(request.input_tokens);
    const auto decodes = static_cast<double>(request.output_tokens - 1);
    sum.prompt_tokens += input - static_cast<double>(found);
    sum.decodes += decodes;
    sum.entries += decodes * (least_held(growth, input + 1) + least_held(growth, input + decodes)) / 2;
    sum.room += decodes * (least_room(growth, input + 1) + least_room(growth, input + decodes)) / 2;
  }
  const auto count = static_cast<double>(traffic.trace.requests.size());
  return {sum.prompt_tokens / count, sum.decodes / count, sum.entries / count, sum.room / count};
}

}  // namespace kvtide::planning
