#include "kv/compression/evict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/vector_width.h"

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

void drop(WorkingHead& head, const std::vector<Candidate>& candidates, const PositionMask& stays,
          Granularity granularity) {
  if (granularity == Granularity::block) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (stays[index] != 0) continue;
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
      if (stays[index] == 0) continue;
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

/// Below so many a selection by halves is faster than counting.
constexpr std::size_t kFewScores = 64;
/// Steps that the range of scores is cut into: about one score each.
constexpr int kBucketBits = 11;

/// Integers in the order of the scores: the bits of a number below 0 count downwards. What is no number is worse than any.
KVTIDE_EVERY_VECTOR_WIDTH
void order_keys_of(const double* scores, std::size_t count, std::int64_t* keys) {
  constexpr double kWorst = -std::numeric_limits<double>::infinity();
  for (std::size_t index = 0; index < count; ++index) {
    const double score = scores[index] == scores[index] ? scores[index] + 0.0 : kWorst;  // -0 + 0 is 0
    const auto bits = std::bit_cast<std::int64_t>(score);
    keys[index] = bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void bounds_of(const std::int64_t* keys, std::size_t count, std::int64_t* lowest, std::int64_t* highest) {
  std::int64_t low = keys[0];
  std::int64_t high = keys[0];
  for (std::size_t index = 1; index < count; ++index) {
    low = std::min(low, keys[index]);
    high = std::max(high, keys[index]);
  }
  *lowest = low;
  *highest = high;
}

/// 1 where it was 1 or the key is at least the cut. @return how many of the others are equal to it
KVTIDE_EVERY_VECTOR_WIDTH
std::int64_t mark_from_of(const std::int64_t* keys, std::size_t count, std::int64_t cut, std::uint8_t* stays) {
  std::int64_t num_equal = 0;
  for (std::size_t index = 0; index < count; ++index) {
    num_equal += keys[index] == cut && stays[index] == 0 ? 1 : 0;
    stays[index] = keys[index] >= cut ? 1 : stays[index];
  }
  return num_equal;
}

/// Where the best of some keys end: all above `key` belong to them, and the first `num_equal` of those equal to it.
struct Cut {
  std::int64_t key = 0;
  std::int64_t num_equal = 0;
};

/// @param keys  reordered; @param count  1..keys.size()
Cut cut_by_halves(std::span<std::int64_t> keys, std::int64_t count) {
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
  Cut cut{*last, count};
  for (auto key = keys.begin(); key != last; ++key) cut.num_equal -= *key > cut.key ? 1 : 0;
  return cut;
}

/// Counts keys in equal steps of their range, then looks only at the step in which the last of the best lies.
Cut cut_by_counts(std::span<const std::int64_t> keys, std::int64_t count) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  bounds_of(keys.data(), keys.size(), &lowest, &highest);
  const auto low = static_cast<std::uint64_t>(lowest);
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(highest) - low)) - kBucketBits);
  std::array<std::uint32_t, std::size_t{1} << kBucketBits> sizes{};
  const auto bucket_of = [&](std::int64_t key) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(key) - low) >> shift);
  };
  for (const std::int64_t key : keys) ++sizes[bucket_of(key)];
  std::size_t bucket = sizes.size() - 1;
  for (; sizes[bucket] < count; --bucket) count -= sizes[bucket];
  std::vector<std::int64_t> inside;
  inside.reserve(sizes[bucket]);
  for (const std::int64_t key : keys) {
    if (bucket_of(key) == bucket) inside.push_back(key);
  }
  return cut_by_halves(inside, count);
}

/// Adds the best of those that do not stay already. @param count  how many; 1..as many as there are
void add_best(std::span<const double> scores, std::int64_t count, PositionMask& stays) {
  std::vector<std::int64_t> keys(scores.size());
  order_keys_of(scores.data(), scores.size(), keys.data());
  std::vector<std::int64_t> free(keys.size() + 1);
  std::size_t num_free = 0;
  for (std::size_t index = 0; index < keys.size(); ++index) {
    free[num_free] = keys[index];
    num_free += stays[index] == 0 ? 1 : 0;
  }
  free.resize(num_free);
  const PositionMask before = stays;
  const Cut cut = num_free < kFewScores ? cut_by_halves(free, count) : cut_by_counts(free, count);
  std::int64_t too_many = mark_from_of(keys.data(), keys.size(), cut.key, stays.data()) - cut.num_equal;
  for (std::size_t index = keys.size(); too_many > 0; --index) {
    if (keys[index - 1] != cut.key || before[index - 1] != 0) continue;
    stays[index - 1] = 0;
    --too_many;
  }
}

}  // namespace

std::vector<std::size_t> best_positions(std::span<const double> scores, std::int64_t count) {
  const PositionMask is_best = choose_best(scores, PositionMask(scores.size(), 0), count);
  std::vector<std::size_t> best(scores.size() + 1);
  std::size_t found = 0;
  for (std::size_t index = 0; index < scores.size(); ++index) {
    best[found] = index;
    found += is_best[index];
  }
  best.resize(found);
  return best;
}

PositionMask choose_best(std::span<const double> scores, const PositionMask& is_protected, std::int64_t count) {
  KVTIDE_ASSERT(scores.size() == is_protected.size(), "one score per candidate");
  if (count >= static_cast<std::int64_t>(scores.size())) return PositionMask(scores.size(), 1);
  PositionMask stays = is_protected;
  const std::int64_t wanted = count - std::ranges::count(is_protected, 1);
  if (wanted > 0) add_best(scores, wanted, stays);
  return stays;
}

PositionMask choose_kept(std::span<const double> scores, const PositionMask& is_protected, PartsPerMillion keep) {
  return choose_best(scores, is_protected, kept_count(static_cast<std::int64_t>(scores.size()), keep));
}

namespace {

/// One budget for all heads: every head is sure of its safeguard, the rest goes where scores are highest.
std::vector<PositionMask> choose_adaptively(const Evict& stage, const std::vector<std::vector<double>>& scores,
                                            const std::vector<PositionMask>& is_protected) {
  std::vector<double> all;
  PositionMask is_certain;
  std::int64_t budget = 0;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    const std::int64_t even = kept_count(static_cast<std::int64_t>(scores[head].size()), stage.keep);
    budget += even;
    PositionMask certain = is_protected[head];
    const std::int64_t safe = std::max<std::int64_t>(stage.safeguard > 0 ? 1 : 0, even * stage.safeguard / 1'000'000);
    for (const std::size_t index : best_positions(scores[head], safe)) certain[index] = 1;
    all.insert(all.end(), scores[head].begin(), scores[head].end());
    is_certain.insert(is_certain.end(), certain.begin(), certain.end());
  }
  const PositionMask stays = choose_best(all, is_certain, budget);
  std::vector<PositionMask> result;
  auto next = stays.begin();
  for (const auto& of_head : scores) {
    result.emplace_back(next, next + static_cast<std::ptrdiff_t>(of_head.size()));
    next += static_cast<std::ptrdiff_t>(of_head.size());
  }
  return result;
}

/// What scores enough stays; a head that would be left with nothing keeps its best.
std::vector<PositionMask> choose_by_threshold(double threshold, const std::vector<std::vector<double>>& scores,
                                              const std::vector<PositionMask>& is_protected) {
  std::vector<PositionMask> result = is_protected;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    bool is_empty = true;
    for (std::size_t index = 0; index < scores[head].size(); ++index) {
      if (scores[head][index] >= threshold) result[head][index] = 1;
      is_empty = is_empty && result[head][index] == 0;
    }
    if (is_empty) {
      for (const std::size_t best : best_positions(scores[head], 1)) result[head][best] = 1;
    }
  }
  return result;
}

}  // namespace

std::vector<PositionMask> choose_kept_of_layer(const Evict& stage, std::vector<std::vector<double>> scores,
                                               const std::vector<PositionMask>& is_protected) {
  if (!stage.head_keep.empty()) {
    KVTIDE_ASSERT(stage.head_keep.size() == scores.size(), "a keep ratio for each head of the layer");
    std::vector<PositionMask> by_head;
    for (std::size_t head = 0; head < scores.size(); ++head) {
      by_head.push_back(choose_kept(scores[head], is_protected[head], stage.head_keep[head]));
    }
    return by_head;
  }
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
  std::vector<PositionMask> stays;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    stays.push_back(choose_kept(scores[head], is_protected[head], stage.keep));
  }
  return stays;
}

void apply(const Evict& stage, WorkingLayer& layer) {
  KVTIDE_ASSERT(layer.scores != nullptr && layer.scores->size() == layer.heads.size(), "one score row per KV head");
  std::vector<std::vector<Candidate>> candidates;
  std::vector<std::vector<double>> scores(layer.heads.size());
  std::vector<PositionMask> is_protected(layer.heads.size());
  for (std::size_t head = 0; head < layer.heads.size(); ++head) {
    candidates.push_back(candidates_of(layer.heads[head], (*layer.scores)[head], stage));
    for (const Candidate& candidate : candidates.back()) {
      scores[head].push_back(candidate.score);
      is_protected[head].push_back(candidate.is_protected ? 1 : 0);
    }
  }
  const std::vector<PositionMask> stays = choose_kept_of_layer(stage, std::move(scores), is_protected);
  for (std::size_t head = 0; head < layer.heads.size(); ++head) {
    drop(layer.heads[head], candidates[head], stays[head], stage.granularity);
  }
}

}  // namespace kvtide::kv
