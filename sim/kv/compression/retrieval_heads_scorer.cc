#include "kv/compression/retrieval_heads_scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kv/compression/attention_columns.h"
#include "kv/compression/evict.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t size = context.num_positions;
  const std::vector<double> between =
      attention_between(layer, size, context.integer("window"), context.integer("sinks"), context.integer("newest"));
  const auto count =
      static_cast<std::int64_t>(std::ceil(context.number("share") * static_cast<double>(layer.size()) - 1e-9));
  LayerScores result(layer.size(), std::vector<double>(static_cast<std::size_t>(size), 0.0));
  for (const std::size_t head : best_positions(between, count)) std::ranges::fill(result[head], 1.0);
  return result;
}

}  // namespace

std::vector<double> attention_between(const LayerTensors& layer, std::int64_t num_positions, std::int64_t window,
                                      std::int64_t sinks, std::int64_t newest) {
  const std::int64_t from = num_positions - std::min(window, num_positions);
  const std::int64_t first = std::min(sinks, num_positions);
  const std::int64_t end = std::max(first, num_positions - newest);
  std::vector<double> between;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, from, num_positions, "retrieval_heads");
    const std::vector<double> mass = attention_columns(head, rows, num_positions);
    between.push_back(std::accumulate(mass.begin() + first, mass.begin() + end, 0.0));
  }
  return between;
}

ScorerEntry retrieval_heads_scorer() {
  return {"retrieval_heads",
          "1 in heads that look beyond sinks and newest positions, 0 in the others; for a threshold",
          "arXiv 2410.10819",
          {{"share", 0.5, 0, 1, false, "share of a layer's KV heads that keep everything"},
           {"sinks", 64, 0, 1 << 20, true, "first positions that every head keeps"},
           {"newest", 256, 0, 1 << 20, true, "newest positions that every head keeps"},
           {"window", 64, 1, 65536, true, "newest queries that are watched"}},
          {.queries = ScorerNeeds::Queries::window},
          &scores};
}

}  // namespace kvtide::kv
