#include "kv/compression/oracle_scorer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const auto begin = std::ranges::lower_bound(head.q_positions, context.num_positions) - head.q_positions.begin();
    const QueryRows rows{begin, head.num_queries()};
    if (rows.size() == 0) {
      throw InputError(
          fmt::format("oracle needs queries after position {}, the trace holds none", context.num_positions - 1));
    }
    std::vector<double> mass = attention_columns(head, rows, head.num_positions());
    mass.resize(static_cast<std::size_t>(context.num_positions));
    result.push_back(std::move(mass));
  }
  return result;
}

}  // namespace

ScorerEntry oracle_scorer() {
  return {"oracle",
          "attention of the recorded queries that come after: what no policy can know",
          "",
          {},
          {.queries = ScorerNeeds::Queries::future},
          &scores};
}

}  // namespace kvtide::kv
