#include "kv/compression/critical_stage.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kv/compression/dot_products.h"
#include "kv/compression/evict.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

constexpr double kCertain = static_cast<double>(std::numeric_limits<float>::max());

std::int64_t share_of(std::int64_t count, PartsPerMillion share) {
  return count * share / 1'000'000;
}

/// Gives the `count` best positions the certain score.
void make_certain(std::vector<double>& scores, std::int64_t count) {
  for (const std::size_t position : best_positions(scores, count)) scores[position] = kCertain;
}

/// Kept positions that each head has when the best of all heads together are kept.
std::vector<std::int64_t> head_budgets(const LayerScores& scores, std::int64_t budget) {
  std::vector<double> all;
  for (const auto& of_head : scores) all.insert(all.end(), of_head.begin(), of_head.end());
  std::vector<std::int64_t> budgets(scores.size(), 0);
  for (const std::size_t index : best_positions(all, budget)) budgets[index / scores.front().size()] += 1;
  return budgets;
}

}  // namespace

LayerScores projected_value_norms(const LayerTensors& layer, std::int64_t num_positions,
                                  const RowMatrix& output_projection) {
  LayerScores norms;
  std::int64_t query_head = 0;
  for (const HeadTensors& head : layer) {
    const auto values = head.v.topRows(num_positions);
    const auto columns = output_projection.middleCols(query_head * head.head_dim(), head.group_size * head.head_dim());
    query_head += head.group_size;
    std::vector<double>& of_head = norms.emplace_back();
    of_head.reserve(static_cast<std::size_t>(num_positions));
    for (const float sum : absolute_product_sums(values, columns)) {
      of_head.push_back(static_cast<double>(sum) / static_cast<double>(head.group_size));
    }
  }
  return norms;
}

LayerScores two_stage_scores(const Evict& stage, LayerScores scores, const LayerScores& norms) {
  const auto num_positions = static_cast<std::int64_t>(scores.front().size());
  const std::int64_t budget = kept_count(num_positions, stage.keep);
  std::vector<std::int64_t> budgets(scores.size(), budget);
  if (stage.heads == HeadScope::adaptive) {
    for (auto& of_head : scores) make_certain(of_head, std::max<std::int64_t>(1, share_of(budget, stage.safeguard)));
    budgets = head_budgets(scores, budget * static_cast<std::int64_t>(scores.size()));
  }
  for (std::size_t head = 0; head < scores.size(); ++head) {
    std::vector<double>& of_head = scores[head];
    std::int64_t certain = share_of(budgets[head], stage.critical->first_stage);
    if (stage.heads != HeadScope::adaptive && stage.critical->first_stage > 0) {
      certain = std::max<std::int64_t>(1, certain);
    }
    make_certain(of_head, certain);
    for (std::size_t position = 0; position < of_head.size(); ++position) {
      if (of_head[position] >= kCertain) continue;
      of_head[position] = (of_head[position] + stage.critical->epsilon) * norms[head][position];
    }
    if (stage.heads == HeadScope::adaptive) make_certain(of_head, budgets[head]);
  }
  return scores;
}

}  // namespace kvtide::kv
