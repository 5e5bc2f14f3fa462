#pragma once
// What an engine cannot do faster, however it batches: the seconds that a request costs it at least.
//
// A step of n tokens takes at least fixed + each x n, attention left out, for every n up to the engine's budget. A request that brings
// `tokens` to compute and cannot do with less than `steps` steps (its share of them: so many sequences run at once, so many entries fit)
// costs fixed x steps + each x tokens. Every such line is a bound; the one that asks most is taken. Prompts and decodes may share every
// step, and attention of the one may hide behind the other's.
//
// Example: steps of 1 token take 10 ms, of 100 tokens 20 ms. 10 tokens in 2 steps: the line 9.9 + 0.101 n asks 19.8 + 1.01 = 20.8 ms. The
// same in a twentieth of a step (200 sequences at once): the line 0.2 n asks 2 ms.

#include <cstdint>
#include <vector>

#include "planning/traffic.h"
#include "serving/cache_growth.h"

namespace kvtide::planning {

struct StepCost {
  double tokens = 0;   ///< of the step, >= 1
  double seconds = 0;  ///< of everything but attention, > 0
};

/// @param costs  not empty, of every size that may be worth it  @param tokens, steps  of a request, >= 0; steps may be a part of one
/// @return seconds
[[nodiscard]] double least_seconds(const std::vector<StepCost>& costs, double tokens, double steps);

/// Sizes of steps in tokens, ascending, up to the first one >= `most`: GEMMs work in tiles, so nothing between two of them is cheaper a
/// token. @param most  >= 1
[[nodiscard]] std::vector<std::int64_t> step_sizes(std::int64_t most);

/// Means over the requests of a traffic.
struct MeanWork {
  /// Prompt tokens that no prefix cache can hold: all of them, or those behind the shared blocks, at least one.
  double prompt_tokens = 0;
  double decodes = 0;  ///< tokens after the first
  double entries = 0;  ///< read by them together: the sum over a request's decodes of what is cached then
  /// That they take in the cache's blocks, likewise: the windows' entries too, as those of other layers.
  double room = 0;
};

/// @param has_hits  shared blocks may be found in a prefix cache
/// Example: 10 prompt tokens, 3 outputs, nothing evicted: 2 decodes that read 11 and 12 entries, 23 together. Beside layers that keep all
/// as many with a window of 11: 11 + 11 more room, 45 together.
[[nodiscard]] MeanWork mean_work(const Traffic& traffic, const serving::CacheGrowth& growth, bool has_hits);

}  // namespace kvtide::planning
