#include "kv/compression/evict.h"

#include <algorithm>
#include <numeric>

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

std::vector<Candidate> candidates_of(const WorkingHead& head, const std::vector<double>& scores,
                                     Granularity granularity) {
  std::vector<Candidate> candidates;
  for (std::size_t block_index = 0; block_index < head.blocks.size(); ++block_index) {
    const WorkingBlock& block = head.blocks[block_index];
    if (block.positions.empty()) continue;
    const auto add = [&](std::size_t first, std::size_t count) {
      double score = 0;
      for (std::size_t index = first; index < first + count; ++index) {
        score += scores[static_cast<std::size_t>(block.positions[index])];
      }
      candidates.push_back({block_index, first, count, block.block.is_protected, score});
    };
    if (granularity == Granularity::block) {
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

/// @return per candidate: stays
std::vector<bool> select(const std::vector<Candidate>& candidates, PartsPerMillion keep) {
  std::vector<double> scores;
  std::vector<bool> is_protected;
  for (const Candidate& candidate : candidates) {
    scores.push_back(candidate.score);
    is_protected.push_back(candidate.is_protected);
  }
  return choose_kept(scores, is_protected, keep);
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

std::vector<bool> choose_kept(std::span<const double> scores, const std::vector<bool>& is_protected,
                              PartsPerMillion keep) {
  KVTIDE_ASSERT(scores.size() == is_protected.size(), "one score per candidate");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
    if (is_protected[left] != is_protected[right]) return static_cast<bool>(is_protected[left]);
    return scores[left] > scores[right];
  });
  const auto num_protected = std::ranges::count(is_protected, true);
  const std::int64_t num_kept =
      std::max<std::int64_t>(kept_count(static_cast<std::int64_t>(scores.size()), keep), num_protected);
  std::vector<bool> stays(scores.size(), false);
  for (std::int64_t rank = 0; rank < num_kept; ++rank) stays[order[static_cast<std::size_t>(rank)]] = true;
  return stays;
}

void apply(const Evict& stage, WorkingLayer& layer) {
  KVTIDE_ASSERT(layer.scores != nullptr && layer.scores->size() == layer.heads.size(), "one score row per KV head");
  std::vector<std::vector<Candidate>> candidates;
  for (std::size_t head_index = 0; head_index < layer.heads.size(); ++head_index) {
    candidates.push_back(candidates_of(layer.heads[head_index], (*layer.scores)[head_index], stage.granularity));
  }
  if (stage.heads == HeadScope::shared) {
    // All heads hold the same candidates here: a shared choice follows only shared choices (see contradictions()).
    for (std::size_t index = 0; index < candidates[0].size(); ++index) {
      double sum = 0;
      for (const auto& of_head : candidates) sum += of_head[index].score;
      for (auto& of_head : candidates) of_head[index].score = sum;
    }
  }
  for (std::size_t head_index = 0; head_index < layer.heads.size(); ++head_index) {
    drop(layer.heads[head_index], candidates[head_index], select(candidates[head_index], stage.keep),
         stage.granularity);
  }
}

}  // namespace kvtide::kv
