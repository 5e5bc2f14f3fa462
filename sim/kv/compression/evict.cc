#include "kv/compression/evict.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace kvtide::kv {
namespace {

/// A block or an entry that may stay or go.
struct Candidate {
  std::size_t block_index = 0;
  std::size_t first_position = 0;  ///< index into WorkingBlock::positions
  std::size_t num_positions = 0;
  bool is_protected = false;
  double score = 0;
};

std::vector<Candidate> candidates_of(const WorkingHead& head, const std::vector<double>& scores, const Evict& stage) {
  std::vector<Candidate> candidates;
  for (std::size_t block_index = 0; block_index < head.blocks.size(); ++block_index) {
    const WorkingBlock& block = head.blocks[block_index];
    if (block.positions.empty()) continue;
    const auto add = [&](std::size_t first, std::size_t count) {
      double score = 0;
      for (std::size_t index = first; index < first + count; ++index) {
        score += scores[static_cast<std::size_t>(block.positions[index])];
      }
      if (stage.block_score == BlockScore::mean) score /= static_cast<double>(count);
      candidates.push_back({block_index, first, count, block.block.is_protected, score});
    };
    if (stage.granularity == Granularity::block) {
      add(0, block.positions.size());
    } else {
      std::size_t first = 0;
      for (const std::int32_t size : block.entry_size) {
        add(first, static_cast<std::size_t>(size));
        first += static_cast<std::size_t>(size);
      }
    }
  }
  return candidates;
}

void drop(WorkingHead& head, const std::vector<Candidate>& candidates, const std::vector<bool>& stays,
          Granularity granularity) {
  if (granularity == Granularity::block) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (stays[index]) continue;
      WorkingBlock& block = head.blocks[candidates[index].block_index];
      block.positions.clear();
      block.entry_size.clear();
      block.k.reset();
      block.v.reset();
    }
    return;
  }
  std::size_t index = 0;
  while (index < candidates.size()) {
    WorkingBlock& block = head.blocks[candidates[index].block_index];
    KVTIDE_ASSERT(!block.k && !block.v, "entries are evicted before they are encoded");
    std::vector<std::int64_t> positions;
    std::vector<std::int32_t> entry_size;
    const std::size_t block_index = candidates[index].block_index;
    for (; index < candidates.size() && candidates[index].block_index == block_index; ++index) {
      if (!stays[index]) continue;
      const auto first = block.positions.begin() + static_cast<std::ptrdiff_t>(candidates[index].first_position);
      positions.insert(positions.end(), first, first + static_cast<std::ptrdiff_t>(candidates[index].num_positions));
      entry_size.push_back(static_cast<std::int32_t>(candidates[index].num_positions));
    }
    block.positions = std::move(positions);
    block.entry_size = std::move(entry_size);
  }
}

}  // namespace

namespace {

/// A score that is no number is worse than any.
double comparable(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

/// Where the best of some scores end: all above `score` belong to them, and the first `num_equal` of those equal to it.
struct Cut {
  double score = 0;
  std::int64_t num_equal = 0;
};

/// @param count  1..scores.size()
Cut cut_after(std::vector<double>& scores, std::int64_t count) {
  const auto last = scores.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
  Cut cut{*last, count};
  for (auto score = scores.begin(); score != last; ++score) cut.num_equal -= *score > cut.score ? 1 : 0;
  return cut;
}

}  // namespace

std::vector<std::size_t> best_positions(std::span<const double> scores, std::int64_t count) {
  const auto wanted = std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(scores.size()));
  std::vector<std::size_t> best;
  if (wanted == 0) return best;
  std::vector<double> values(scores.size());
  std::ranges::transform(scores, values.begin(), comparable);
  Cut cut = cut_after(values, wanted);
  best.reserve(static_cast<std::size_t>(wanted));
  for (std::size_t index = 0; index < scores.size(); ++index) {
    const double score = comparable(scores[index]);
    if (score > cut.score || (score == cut.score && cut.num_equal-- > 0)) best.push_back(index);
  }
  return best;
}

std::vector<bool> choose_best(std::span<const double> scores, const std::vector<bool>& is_protected,
                              std::int64_t count) {
  KVTIDE_ASSERT(scores.size() == is_protected.size(), "one score per candidate");
  std::vector<bool> stays = is_protected;
  std::vector<double> free;
  free.reserve(scores.size());
  for (std::size_t index = 0; index < scores.size(); ++index) {
    if (!is_protected[index]) free.push_back(comparable(scores[index]));
  }
  const auto num_free = static_cast<std::int64_t>(free.size());
  const std::int64_t wanted = std::min(count - (static_cast<std::int64_t>(scores.size()) - num_free), num_free);
  if (wanted <= 0) return stays;
  Cut cut = cut_after(free, wanted);
  for (std::size_t index = 0; index < scores.size(); ++index) {
    if (is_protected[index]) continue;
    const double score = comparable(scores[index]);
    if (score > cut.score || (score == cut.score && cut.num_equal-- > 0)) stays[index] = true;
  }
  return stays;
}

std::vector<bool> choose_kept(std::span<const double> scores, const std::vector<bool>& is_protected,
                              PartsPerMillion keep) {
  return choose_best(scores, is_protected, kept_count(static_cast<std::int64_t>(scores.size()), keep));
}

namespace {

/// One budget for all heads: every head is sure of its safeguard, the rest goes where scores are highest.
std::vector<std::vector<bool>> choose_adaptively(const Evict& stage, const std::vector<std::vector<double>>& scores,
                                                 const std::vector<std::vector<bool>>& is_protected) {
  std::vector<double> all;
  std::vector<bool> is_certain;
  std::int64_t budget = 0;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    const std::int64_t even = kept_count(static_cast<std::int64_t>(scores[head].size()), stage.keep);
    budget += even;
    std::vector<bool> certain = is_protected[head];
    const std::int64_t safe = std::max<std::int64_t>(stage.safeguard > 0 ? 1 : 0, even * stage.safeguard / 1'000'000);
    for (const std::size_t index : best_positions(scores[head], safe)) certain[index] = true;
    all.insert(all.end(), scores[head].begin(), scores[head].end());
    is_certain.insert(is_certain.end(), certain.begin(), certain.end());
  }
  const std::vector<bool> stays = choose_best(all, is_certain, budget);
  std::vector<std::vector<bool>> result;
  auto next = stays.begin();
  for (const auto& of_head : scores) {
    result.emplace_back(next, next + static_cast<std::ptrdiff_t>(of_head.size()));
    next += static_cast<std::ptrdiff_t>(of_head.size());
  }
  return result;
}

/// What scores enough stays; a head that would be left with nothing keeps its best.
std::vector<std::vector<bool>> choose_by_threshold(double threshold, const std::vector<std::vector<double>>& scores,
                                                   const std::vector<std::vector<bool>>& is_protected) {
  std::vector<std::vector<bool>> result = is_protected;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    bool is_empty = true;
    for (std::size_t index = 0; index < scores[head].size(); ++index) {
      if (scores[head][index] >= threshold) result[head][index] = true;
      is_empty = is_empty && !result[head][index];
    }
    if (is_empty) {
      for (const std::size_t best : best_positions(scores[head], 1)) result[head][best] = true;
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<bool>> choose_kept_of_layer(const Evict& stage, std::vector<std::vector<double>> scores,
                                                    const std::vector<std::vector<bool>>& is_protected) {
  if (stage.threshold) return choose_by_threshold(*stage.threshold, scores, is_protected);
  if (stage.heads == HeadScope::adaptive) return choose_adaptively(stage, scores, is_protected);
  if (stage.heads == HeadScope::shared) {
    // All heads hold the same candidates here: a shared choice follows only shared choices (see contradictions()).
    for (std::size_t index = 0; index < scores[0].size(); ++index) {
      double sum = 0;
      for (const auto& of_head : scores) sum += of_head[index];
      for (auto& of_head : scores) of_head[index] = sum;
    }
  }
  std::vector<std::vector<bool>> stays;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    stays.push_back(choose_kept(scores[head], is_protected[head], stage.keep));
  }
  return stays;
}

void apply(const Evict& stage, WorkingLayer& layer) {
  KVTIDE_ASSERT(layer.scores != nullptr && layer.scores->size() == layer.heads.size(), "one score row per KV head");
  std::vector<std::vector<Candidate>> candidates;
  std::vector<std::vector<double>> scores(layer.heads.size());
  std::vector<std::vector<bool>> is_protected(layer.heads.size());
  for (std::size_t head = 0; head < layer.heads.size(); ++head) {
    candidates.push_back(candidates_of(layer.heads[head], (*layer.scores)[head], stage));
    for (const Candidate& candidate : candidates.back()) {
      scores[head].push_back(candidate.score);
      is_protected[head].push_back(candidate.is_protected);
    }
  }
  const std::vector<std::vector<bool>> stays = choose_kept_of_layer(stage, std::move(scores), is_protected);
  for (std::size_t head = 0; head < layer.heads.size(); ++head) {
    drop(layer.heads[head], candidates[head], stays[head], stage.granularity);
  }
}

}  // namespace kvtide::kv
