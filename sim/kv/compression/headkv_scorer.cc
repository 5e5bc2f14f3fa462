// Budgets by head (HeadKV, arXiv 2410.19258): a head that looks far back may keep more, and what it keeps are its best
// positions by SnapKV. With `heads: adaptive` one budget serves all heads of a layer; the position of rank r in a head of
// importance w scores w / r, so that the best of all heads together are w_1 : w_2 : ... of each. `safeguard` is the part of
// the even budget that no head lends to the others.
//
// Example: importances 0.6 and 0.3, budget 3: scores 0.6, 0.3, 0.2, ... and 0.3, 0.15, ...: the best three are ranks 1 and
// 2 of the first head and rank 1 of the second.

#include <algorithm>
#include <numeric>

#include "kv/compression/retrieval_heads_scorer.h"
#include "kv/compression/scorer.h"
#include "kv/compression/snapkv_scorer.h"

namespace kvtide::kv {
namespace {

/// Added to every head's importance: one that never looks back still knows its best positions.
constexpr double kLeast = 1e-9;

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t window = context.integer("window");
  const std::vector<double> importance =
      attention_between(layer, context.num_positions, window, context.integer("sinks"), context.integer("newest"));
  ScorerContext of_positions = context;
  of_positions.parameters = {{"kernel", context.number("kernel")}, {"window", context.number("window")}};
  LayerScores result = score_layer(snapkv_scorer(), layer, of_positions);
  for (std::size_t head = 0; head < result.size(); ++head) {
    std::vector<std::size_t> order(result[head].size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t index) { return result[head][index]; });
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      result[head][order[rank]] = (importance[head] + kLeast) / static_cast<double>(rank + 1);
    }
  }
  return result;
}

}  // namespace

ScorerEntry headkv_scorer() {
  return {"headkv",
          "importance of the head over the position's SnapKV rank; with heads adaptive, budgets by head",
          "arXiv 2410.19258",
          {{"window", 64, 1, 65536, true, "newest queries that score, and stay"},
           {"kernel", 5, 1, 65535, true, "positions averaged"},
           {"sinks", 64, 0, 1 << 20, true, "first positions that make no head important"},
           {"newest", 256, 0, 1 << 20, true, "newest positions that make no head important"}},
          {.queries = ScorerNeeds::Queries::window},
          &scores};
}

}  // namespace kvtide::kv
