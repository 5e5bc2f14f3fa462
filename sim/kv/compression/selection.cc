#include "kv/compression/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "kv/compression/evict.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

/// Scores in which all of the kept are above all others; among either the order stays.
/// Scores without bounds become 0 and -1. Example: 5, 9, 7 with the first kept: 5, 9 - 18, 7 - 18; 18 is twice the range 4, the largest size and 1.
std::vector<double> lifted(std::vector<double> scores, const std::vector<bool>& is_kept) {
  const auto [lowest, highest] = std::ranges::minmax(scores);
  const double fall = 2 * (highest - lowest) + std::max(std::abs(lowest), std::abs(highest)) + 1;
  for (std::size_t index = 0; index < scores.size(); ++index) {
    if (!std::isfinite(fall)) scores[index] = 0;
    scores[index] -= is_kept[index] ? 0.0 : std::isfinite(fall) ? fall : 1.0;
  }
  return scores;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

std::vector<double> scores_of(const std::vector<double>& scores, const Rescore& rescore, std::size_t head,
                              const std::vector<std::int64_t>& positions) {
  if (rescore) return rescore(head, positions);
  std::vector<double> chosen;
  for (const std::int64_t position : positions) chosen.push_back(scores[static_cast<std::size_t>(position)]);
  return chosen;
}

std::vector<bool> by_quota(const Compression& setting, const Evict& stage, const std::vector<double>& scores,
                           const Rescore& rescore, std::size_t head) {
  std::vector<bool> is_kept(scores.size(), false);
  for (const Block& block : partition_blocks(setting, static_cast<std::int64_t>(scores.size()))) {
    const std::vector<std::int64_t> positions = range(block.begin, block.end);
    const std::int64_t count = kept_count(block.end - block.begin, stage.keep);
    for (const std::size_t index : best_positions(scores_of(scores, rescore, head, positions), count)) {
      is_kept[static_cast<std::size_t>(positions[index])] = true;
    }
  }
  return is_kept;
}

std::vector<bool> by_iteration(const Compression& setting, const Evict& stage, const std::vector<double>& scores,
                               const Rescore& rescore, std::size_t head) {
  const auto size = static_cast<std::int64_t>(scores.size());
  const std::int64_t budget = kept_count(size, stage.keep);
  std::vector<bool> is_kept(scores.size(), false);
  if (!rescore) {  // the best of the best so far and a block, again and again, are the best of all
    for (const std::size_t position : best_positions(scores, budget)) is_kept[position] = true;
    return is_kept;
  }
  std::vector<std::int64_t> kept = range(0, budget);
  for (std::int64_t begin = budget; begin < size; begin += setting.block_size) {
    const std::vector<std::int64_t> block = range(begin, std::min(begin + setting.block_size, size));
    kept.insert(kept.end(), block.begin(), block.end());
    const std::vector<std::size_t> best = best_positions(rescore(head, kept), budget);
    std::vector<std::int64_t> survivors;
    for (const std::size_t index : best) survivors.push_back(kept[index]);
    kept = std::move(survivors);
  }
  for (const std::int64_t position : kept) is_kept[static_cast<std::size_t>(position)] = true;
  return is_kept;
}

/// Entropy of the scores as shares, over the largest possible; a single position has none.
double normalised_entropy(std::span<const double> scores) {
  if (scores.size() < 2) return 0;
  constexpr double kTiny = 1e-8;
  const double lowest = std::min(0.0, *std::ranges::min_element(scores));
  double sum = 0;
  for (const double score : scores) sum += score - lowest;
  double entropy = 0;
  for (const double score : scores) {
    const double share = (score - lowest) / (sum + kTiny);
    entropy -= share * std::log(share + kTiny);
  }
  return std::clamp(entropy / std::log(static_cast<double>(scores.size())), 0.0, 1.0);
}

/// The lower of the two middle values of an even count.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<bool> by_entropy(const Compression& setting, const Evict& stage, const std::vector<double>& scores) {
  const std::vector<Block> blocks = partition_blocks(setting, static_cast<std::int64_t>(scores.size()));
  std::vector<double> means;
  std::vector<double> entropies;
  for (const Block& block : blocks) {
    const auto of_block = std::span(scores).subspan(static_cast<std::size_t>(block.begin),
                                                    static_cast<std::size_t>(block.end - block.begin));
    means.push_back(std::accumulate(of_block.begin(), of_block.end(), 0.0) / static_cast<double>(of_block.size()));
    entropies.push_back(normalised_entropy(of_block));
  }
  const double high = lower_median(means);
  const double low = lower_median(entropies);
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t index) { return means[index]; });
  std::int64_t budget = kept_count(static_cast<std::int64_t>(scores.size()), stage.keep);
  std::vector<bool> is_kept(scores.size(), false);
  for (const std::size_t index : order) {
    const Block& block = blocks[index];
    std::int64_t count = std::min(block.end - block.begin, budget);
    if (means[index] >= high && entropies[index] < low) count = std::min(count, stage.low_entropy_kept);
    const auto of_block = std::span(scores).subspan(static_cast<std::size_t>(block.begin),
                                                    static_cast<std::size_t>(block.end - block.begin));
    for (const std::size_t at : best_positions(of_block, count))
      is_kept[static_cast<std::size_t>(block.begin) + at] = true;
    budget -= count;
  }
  std::vector<double> rest = scores;
  for (std::size_t position = 0; position < rest.size(); ++position) {
    if (is_kept[position]) rest[position] = -std::numeric_limits<double>::infinity();
  }
  for (const std::size_t position : best_positions(rest, budget)) is_kept[position] = true;
  return is_kept;
}

}  // namespace

LayerScores selected_scores(const Compression& setting, const Evict& stage, const LayerScores& scores,
                            const Rescore& rescore) {
  LayerScores result;
  KVTIDE_ASSERT(stage.selection != Selection::top, "the best anywhere are what the scores already say");
  if (stage.selection == Selection::entropy_gated) {
    std::vector<double> sum(scores.front().size(), 0.0);
    for (const auto& of_head : scores) {
      for (std::size_t position = 0; position < sum.size(); ++position) sum[position] += of_head[position];
    }
    return LayerScores(scores.size(), lifted(sum, by_entropy(setting, stage, sum)));
  }
  for (std::size_t head = 0; head < scores.size(); ++head) {
    const std::vector<bool> is_kept = stage.selection == Selection::quota
                                          ? by_quota(setting, stage, scores[head], rescore, head)
                                          : by_iteration(setting, stage, scores[head], rescore, head);
    result.push_back(lifted(scores[head], is_kept));
  }
  return result;
}

}  // namespace kvtide::kv
