#include "kv/compression/compactor_scorer.h"

#include <algorithm>

#include "kv/compression/leverage_scorer.h"
#include "kv/compression/non_causal_scorer.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t size = context.num_positions;
  const std::int64_t first = std::min(context.integer("first_kept"), size);
  const std::int64_t end = std::max(first, size - context.integer("last_kept"));
  if (first == end) return LayerScores(layer.size(), std::vector<double>(static_cast<std::size_t>(size), 1.0));
  const double given = context.number("blending");
  const double blending = given < 0 ? 1 - static_cast<double>(context.keep) * 1e-6 : given;
  const LayerScores leverage = leverage_scores(layer, first, end, context.integer("sketch"), context.seed);
  LayerScores result = non_causal_scores(layer, first, end, context.integer("chunk"), context.integer("padded") == 1);
  double largest = result.front().front() + blending * leverage.front().front();
  for (std::size_t head = 0; head < result.size(); ++head) {
    for (std::size_t index = 0; index < result[head].size(); ++index) {
      result[head][index] += blending * leverage[head][index];
      largest = std::max(largest, result[head][index]);
    }
  }
  for (auto& of_head : result) {
    of_head.insert(of_head.begin(), static_cast<std::size_t>(first), largest);
    of_head.resize(static_cast<std::size_t>(size), largest);
  }
  return result;
}

}  // namespace

ScorerEntry compactor_scorer() {
  return {"compactor",
          "leverage and non-causal attention, blended by the share removed",
          "arXiv 2507.08143",
          {{"first_kept", 8, 0, 1 << 20, true, "first positions that stay"},
           {"last_kept", 4, 0, 1 << 20, true, "newest positions that stay"},
           {"chunk", 256, 1, 65536, true, "positions of a chunk"},
           {"sketch", 48, 1, 4096, true, "columns of the Gaussian sketch"},
           {"blending", -1, -1, 100, false, "weight of the leverage; -1: the share removed"},
           {"padded", 0, 0, 1, true, "1: a last chunk that is not full is filled with zeros, as the peer's code does"}},
          {.queries = ScorerNeeds::Queries::all,
           .values = true,
           .keys_before_rope = true,
           .keep_ratio = true,
           .flops_per_key_element = 200},
          &scores};
}

}  // namespace kvtide::kv
