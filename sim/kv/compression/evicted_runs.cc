#include "kv/compression/evicted_runs.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "kv/compression/anchor_tokens.h"
#include "kv/compression/evict.h"
#include "kv/compression/overlap.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

/// No numbers are stored, so any head_dim does.
constexpr std::int64_t kAnyHeadDim = 8;
constexpr std::size_t kSideBySide = 4;

/// [block] sums from left to right, as evict.cc adds them; four blocks side by side, since each addition of a sum waits
/// for the one before it.
std::vector<double> block_scores(const std::vector<Block>& blocks, const std::vector<double>& scores) {
  std::vector<double> sums(blocks.size(), 0.0);
  std::size_t first = 0;
  for (; first + kSideBySide <= blocks.size(); first += kSideBySide) {
    std::array<const double*, kSideBySide> begin{};
    std::int64_t shortest = blocks[first].end - blocks[first].begin;
    for (std::size_t lane = 0; lane < kSideBySide; ++lane) {
      const Block& block = blocks[first + lane];
      begin[lane] = scores.data() + block.begin;
      shortest = std::min(shortest, block.end - block.begin);
    }
    std::array<double, kSideBySide> sum{};
    for (std::int64_t index = 0; index < shortest; ++index) {
      for (std::size_t lane = 0; lane < kSideBySide; ++lane) sum[lane] += begin[lane][index];
    }
    for (std::size_t lane = 0; lane < kSideBySide; ++lane) {
      const Block& block = blocks[first + lane];
      for (std::int64_t index = shortest; index < block.end - block.begin; ++index) sum[lane] += begin[lane][index];
      sums[first + lane] = sum[lane];
    }
  }
  for (; first < blocks.size(); ++first) {
    for (std::int64_t position = blocks[first].begin; position < blocks[first].end; ++position) {
      sums[first] += scores[static_cast<std::size_t>(position)];
    }
  }
  return sums;
}

void append(PositionRuns& runs, std::int64_t begin, std::int64_t end) {
  if (!runs.empty() && runs.back().end == begin) {
    runs.back().end = end;
  } else {
    runs.push_back({begin, end});
  }
}

/// What one stage of block granularity takes when it is the only one.
std::vector<PositionRuns> evict_blocks(const Evict& stage, const std::vector<Block>& blocks, std::int64_t num_positions,
                                       const LayerScores& scores) {
  PositionMask is_protected;
  is_protected.reserve(blocks.size());
  for (const Block& block : blocks) is_protected.push_back(block.is_protected ? 1 : 0);
  std::vector<std::vector<double>> sums;
  sums.reserve(scores.size());
  for (const auto& of_head : scores) {
    sums.push_back(block_scores(blocks, of_head));
    if (stage.block_score == BlockScore::mean) {
      for (std::size_t index = 0; index < blocks.size(); ++index) {
        sums.back()[index] /= static_cast<double>(blocks[index].end - blocks[index].begin);
      }
    }
  }
  const std::vector<PositionMask> stays =
      choose_kept_of_layer(stage, std::move(sums), std::vector<PositionMask>(scores.size(), is_protected));
  std::vector<PositionRuns> runs(scores.size());
  for (std::size_t head = 0; head < scores.size(); ++head) {
    std::int64_t next = 0;  // what lies before is kept or in a run
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      if (stays[head][index] == 0) continue;
      if (blocks[index].begin > next) append(runs[head], next, blocks[index].begin);
      next = std::max(next, blocks[index].end);
    }
    if (next < num_positions) append(runs[head], next, num_positions);
  }
  return runs;
}

/// Runs of zeros. Runs are short, so 64 positions become the bits of a number and only its changes are visited.
PositionRuns runs_without(const PositionMask& stays) {
  PositionRuns runs;
  const auto size = static_cast<std::int64_t>(stays.size());
  std::uint64_t before = 1;  // whether the position before stays: then a run begins at the first one that does not
  std::int64_t begin = 0;
  for (std::int64_t first = 0; first < size; first += 64) {
    const std::int64_t count = std::min<std::int64_t>(64, size - first);
    std::uint64_t bits = 0;
    for (std::int64_t index = 0; index < count; ++index) {
      bits |= static_cast<std::uint64_t>(stays[static_cast<std::size_t>(first + index)])
              << static_cast<unsigned>(index);
    }
    std::uint64_t changes = bits ^ (bits << 1U | before);
    if (count < 64) changes &= (std::uint64_t{1} << static_cast<unsigned>(count)) - 1;
    for (; changes != 0; changes &= changes - 1) {
      const std::int64_t position = first + std::countr_zero(changes);
      if ((bits >> static_cast<unsigned>(position - first) & 1U) == 0) {
        begin = position;
      } else {
        runs.push_back({begin, position});
      }
    }
    before = bits >> 63U;
  }
  if (size > 0 && stays.back() == 0) runs.push_back({begin, size});
  return runs;
}

/// The same for token granularity: positions of protected blocks stay.
std::vector<PositionRuns> evict_tokens(const Evict& stage, const std::vector<Block>& blocks, std::int64_t num_positions,
                                       const LayerScores& scores) {
  PositionMask is_protected(static_cast<std::size_t>(num_positions), 0);
  for (const Block& block : blocks) {
    if (block.is_protected) std::fill(is_protected.begin() + block.begin, is_protected.begin() + block.end, 1);
  }
  std::vector<std::vector<double>> of_positions;
  of_positions.reserve(scores.size());
  for (const auto& of_head : scores) of_positions.emplace_back(of_head.begin(), of_head.begin() + num_positions);
  std::vector<PositionRuns> runs;
  for (const PositionMask& stays :
       choose_kept_of_layer(stage, std::move(of_positions), std::vector<PositionMask>(scores.size(), is_protected))) {
    runs.push_back(runs_without(stays));
  }
  return runs;
}

PositionRuns gaps(const std::vector<Segment>& segments, std::int64_t num_positions) {
  PositionRuns runs;
  std::int64_t next = 0;
  for (const Segment& segment : segments) {
    if (segment.begin > next) append(runs, next, segment.begin);
    next = segment.end;
  }
  if (next < num_positions) append(runs, next, num_positions);
  return runs;
}

}  // namespace

bool only_evicts(const Compression& setting) {
  return std::ranges::all_of(setting.stages, [](const Stage& stage) {
    const auto* evict = std::get_if<Evict>(&stage);
    return evict != nullptr && !changes_entries(evict->rest);
  });
}

std::vector<PositionRuns> evicted_runs(const Compression& setting, std::int64_t num_positions,
                                       const LayerScores& scores) {
  return evicted_runs(setting, partition_blocks(setting, num_positions), num_positions, scores);
}

std::vector<PositionRuns> evicted_runs(const Compression& setting, const std::vector<Block>& blocks,
                                       std::int64_t num_positions, const LayerScores& scores) {
  KVTIDE_ASSERT(
      std::ranges::all_of(setting.stages, [](const Stage& stage) { return std::holds_alternative<Evict>(stage); }),
      "runs tell nothing of a stage that encodes");
  for (const auto& of_head : scores) {
    KVTIDE_ASSERT(static_cast<std::int64_t>(of_head.size()) >= num_positions, "a score per position");
  }
  if (const auto problems = contradictions(setting, kAnyHeadDim); !problems.empty()) throw InputError(problems.front());
  if (setting.stages.size() == 1) {
    const Evict& stage = std::get<Evict>(setting.stages.front());
    if (!keeps_anchor_tokens(setting)) {
      if (stage.granularity == Granularity::token) return evict_tokens(stage, blocks, num_positions, scores);
      if (!scores_span_halo(setting)) return evict_blocks(stage, blocks, num_positions, scores);
      return evict_blocks(stage, blocks, num_positions, scores_with_halo(setting, num_positions, scores));
    }
  }
  const auto num_heads = static_cast<std::int64_t>(scores.size());
  const LayerCache cache = compress_layer(setting, num_positions, num_heads, kAnyHeadDim, scores, nullptr);
  std::vector<PositionRuns> runs;
  for (const HeadCache& head : cache.heads) runs.push_back(gaps(head.segments, num_positions));
  return runs;
}

}  // namespace kvtide::kv
