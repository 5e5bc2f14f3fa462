#include "kv/compression/random_scorer.h"

#include "base/random.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& /*layer*/, const ScorerContext& context) {
  RandomStream stream(context.seed, "random_scorer");
  LayerScores result(static_cast<std::size_t>(context.num_heads));
  for (auto& of_head : result) {
    for (std::int64_t position = 0; position < context.num_positions; ++position) of_head.push_back(stream.uniform());
  }
  return result;
}

}  // namespace

ScorerEntry random_scorer() {
  return {"random",
          "control: uniform random numbers",
          "",
          {},
          {.keys = false, .positions_only = true, .flops_per_key_element = 0},
          &scores};
}

}  // namespace kvtide::kv
