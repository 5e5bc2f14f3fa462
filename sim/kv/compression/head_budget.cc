#include "kv/compression/head_budget.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/evict.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

/// [layer, head] 1 for heads at or above the quantile 1 - share, interpolated as numpy does; on a tie the earlier ones.
PositionMask whole_heads(const HeadTable& table, PartsPerMillion share) {
  const auto size = static_cast<std::int64_t>(table.scores.size());
  const std::int64_t below = ceil_div((size - 1) * (1'000'000 - share), 1'000'000);
  return choose_best(table.scores, PositionMask(table.scores.size(), 0), size - below);
}

/// [layer, head] positions of a context.
std::vector<double> pooled_counts(const HeadTable& table, const HeadRule& rule, PartsPerMillion keep,
                                  std::int64_t num_positions) {
  const std::int64_t window = std::min(rule.window, num_positions);
  const auto budget = static_cast<double>(std::max<std::int64_t>(0, kept_count(num_positions, keep) - window));
  const double pooled = std::floor(budget / rule.beta);
  const double largest =
      *std::ranges::max_element(table.scores);  // shares of it can be added, however small scores are
  double sum = 0;
  for (const double score : table.scores) sum += score / largest;
  const double of_all = pooled * static_cast<double>(table.scores.size()) / sum;
  std::vector<double> counts;
  for (const double score : table.scores) {
    counts.push_back(static_cast<double>(window) + std::nearbyint(score / largest * of_all + budget - pooled));
  }
  return counts;
}

std::size_t nearest_layer(std::int64_t layer, std::int64_t num_layers, const HeadTable& table) {
  if (num_layers == table.num_layers) return static_cast<std::size_t>(layer);
  if (num_layers < 2) return 0;
  const double depth = static_cast<double>(layer) / static_cast<double>(num_layers - 1);
  return static_cast<std::size_t>(std::llround(depth * static_cast<double>(table.num_layers - 1)));
}

}  // namespace

std::optional<HeadTable> of_kv_heads(const HeadTable& table, std::int64_t num_layers, std::int64_t num_query_heads,
                                     std::int64_t num_kv_heads) {
  if (table.num_layers != num_layers) return std::nullopt;
  if (table.num_heads == num_kv_heads) return table;
  if (table.num_heads != num_query_heads) return std::nullopt;
  const auto group = static_cast<std::size_t>(num_query_heads / num_kv_heads);
  HeadTable of_groups{num_layers, num_kv_heads, {}};
  for (std::size_t first = 0; first + group <= table.scores.size(); first += group) {
    double sum = 0;
    for (std::size_t member = 0; member < group; ++member) sum += table.scores[first + member];
    of_groups.scores.push_back(sum / static_cast<double>(group));
  }
  return of_groups;
}

std::vector<PartsPerMillion> head_keeps(const HeadTable& table, const HeadRule& rule, PartsPerMillion keep,
                                        std::int64_t layer, std::int64_t num_layers, std::int64_t num_heads,
                                        std::int64_t num_positions) {
  constexpr PartsPerMillion kAll = 1'000'000;
  const std::size_t row = nearest_layer(layer, num_layers, table) * static_cast<std::size_t>(table.num_heads);
  const PositionMask is_whole = rule.keeps_whole_heads ? whole_heads(table, rule.share) : PositionMask{};
  const std::vector<double> counts =
      rule.keeps_whole_heads ? std::vector<double>{} : pooled_counts(table, rule, keep, num_positions);
  std::vector<PartsPerMillion> keeps;
  for (std::int64_t head = 0; head < num_heads; ++head) {
    const std::size_t index = row + static_cast<std::size_t>(head % table.num_heads);
    if (rule.keeps_whole_heads) {
      keeps.push_back(is_whole[index] != 0 ? kAll : 1);
    } else {
      const double most = static_cast<double>(num_positions);
      keeps.push_back(keep_ratio_of(num_positions, static_cast<std::int64_t>(std::min(counts[index], most))));
    }
  }
  return keeps;
}

}  // namespace kvtide::kv
