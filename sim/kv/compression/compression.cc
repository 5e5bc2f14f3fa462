#include "kv/compression/compression.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kv/compression/anchor_tokens.h"
#include "kv/compression/evict.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/half_rounding.h"
#include "kv/compression/low_rank.h"
#include "kv/compression/overlap.h"
#include "kv/compression/pool.h"
#include "kv/compression/quantize.h"
#include "kv/compression/rest.h"
#include "kv/compression/working_layer.h"

namespace kvtide::kv {
namespace {

/// Rows of a matrix, one behind the other.
using MatrixRows = Eigen::Ref<RowMatrix>;

double centre_of(const WorkingBlock& block, std::size_t first, std::size_t size) {
  double sum = 0;
  for (std::size_t index = first; index < first + size; ++index) sum += static_cast<double>(block.positions[index]);
  return sum / static_cast<double>(size);
}

/// Shares of a pool's positions in its entry; they sum to 1.
void pool_weights(const WorkingBlock& block, const HeadTensors& tensors, std::size_t first, std::size_t size,
                  std::vector<double>& weights) {
  weights.assign(size, 1.0 / static_cast<double>(size));
  if (block.pool_weight == PoolWeight::uniform) return;
  const RowMatrix& keys = block.pooled_rope == RopeState::pre ? tensors.k_pre : tensors.k_post;
  Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(tensors.head_dim());
  for (std::size_t index = 0; index < size; ++index) mean += keys.row(block.positions[first + index]).cast<double>();
  double sum = 0;
  for (std::size_t index = 0; index < size; ++index) {
    const Eigen::RowVectorXd key = keys.row(block.positions[first + index]).cast<double>();
    const double lengths = key.norm() * mean.norm();
    weights[index] = (1 + (lengths > 0 ? key.dot(mean) / lengths : 0.0)) / 2;
    sum += weights[index];
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(size);
}

void rotate_to(MatrixRows rows, std::int64_t row, const Rope& rope, double position) {
  rope.rotate({rows.row(row).data(), static_cast<std::size_t>(rows.cols())}, position);
}

/// entry_rows() into rows that are there.
void fill_entry_rows(const WorkingBlock& block, const HeadTensors& tensors, bool is_key, RopeState rope,
                     MatrixRows rows) {
  const bool is_stored_before_rope = is_key && rope == RopeState::pre;
  const bool is_pooled_before_rope = is_key && (is_stored_before_rope || block.pooled_rope == RopeState::pre);
  const RowMatrix& source = !is_key ? tensors.v : is_pooled_before_rope ? tensors.k_pre : tensors.k_post;
  // A lone entry of a pooled block is its own centre: rotating it there gives k_post again, bit for bit.
  const RowMatrix& lone = !is_key ? tensors.v : is_stored_before_rope ? tensors.k_pre : tensors.k_post;
  std::vector<double> weights;
  Eigen::RowVectorXd sum(tensors.head_dim());
  std::size_t first = 0;
  bool has_pools = false;
  for (std::int64_t entry = 0; entry < block.num_entries(); ++entry) {
    const auto size = static_cast<std::size_t>(block.entry_size[static_cast<std::size_t>(entry)]);
    if (size == 1) {
      std::copy_n(lone.row(block.positions[first]).data(), lone.cols(), rows.row(entry).data());
    } else {
      has_pools = true;
      pool_weights(block, tensors, first, size, weights);
      sum.setZero();
      for (std::size_t index = 0; index < size; ++index) {
        sum += weights[index] * source.row(block.positions[first + index]).cast<double>();
      }
      rows.row(entry) = sum.cast<float>();
      if (is_pooled_before_rope && !is_stored_before_rope) {
        rotate_to(rows, entry, tensors.rope, centre_of(block, first, size));
      }
    }
    first += size;
  }
  if (has_pools) round_to_half(rows.data(), rows.size());
}

}  // namespace

RowMatrix entry_rows(const WorkingBlock& block, const HeadTensors& tensors, bool is_key, RopeState rope) {
  RowMatrix rows(block.num_entries(), tensors.head_dim());
  fill_entry_rows(block, tensors, is_key, rope, rows);
  return rows;
}

void round_to_half(RowMatrix& values) {
  round_to_half(values.data(), values.size());
}

namespace {

/// Forms and metadata of one block's K or V, whether a stage touched it or not.
StoredTensor stored_or_recorded(const std::optional<StoredTensor>& tensor, std::int64_t head_dim) {
  StoredTensor stored;
  stored.form = recorded_form(head_dim);
  if (tensor) {
    stored.form = tensor->form;
    stored.metadata = tensor->metadata;
    stored.num_encoded = tensor->num_encoded;
  }
  return stored;
}

void append_segments(const WorkingBlock& block, std::int64_t head_dim, std::vector<Segment>& segments) {
  const StoredForm recorded = recorded_form(head_dim);
  const StoredTensor k = stored_or_recorded(block.k, head_dim);
  const StoredTensor v = stored_or_recorded(block.v, head_dim);
  std::size_t first = 0;
  bool starts_block = true;
  for (std::int64_t entry = 0; entry < block.num_entries();) {
    Segment next;
    next.begin = next.end = block.positions[first];
    next.k_form = entry < k.num_encoded ? k.form : recorded;
    next.v_form = entry < v.num_encoded ? v.form : recorded;
    const bool is_single = block.entry_size[static_cast<std::size_t>(entry)] == 1;
    // Entries stored alike that follow one another.
    do {
      first += static_cast<std::size_t>(block.entry_size[static_cast<std::size_t>(entry)]);
      next.end = block.positions[first - 1] + 1;
      ++next.num_entries;
      ++entry;
    } while (entry < block.num_entries() && entry != k.num_encoded && entry != v.num_encoded &&
             block.positions[first] == next.end);
    // A block's scales and bases belong to its first segment.
    if (starts_block) {
      next.k_metadata = k.metadata;
      next.v_metadata = v.metadata;
    }
    const auto is_exact_run = [](const Segment& s) { return s.num_entries == s.end - s.begin; };
    if (!segments.empty() && segments.back().end == next.begin && segments.back().k_form == next.k_form &&
        segments.back().v_form == next.v_form && (!starts_block || (is_exact_run(segments.back()) && is_single))) {
      Segment& last = segments.back();
      last.end = next.end;
      last.num_entries += next.num_entries;
      last.k_metadata += next.k_metadata;
      last.v_metadata += next.v_metadata;
    } else {
      segments.push_back(next);
    }
    starts_block = false;
  }
}

/// What attention reads of a block's K or V.
void decode_rows(const std::optional<StoredTensor>& tensor, const WorkingBlock& block, const HeadTensors& tensors,
                 bool is_key, MatrixRows rows) {
  if (!tensor) return fill_entry_rows(block, tensors, is_key, RopeState::post, rows);
  if (tensor->basis.size() > 0) {
    rows.noalias() = tensor->values * tensor->basis;
  } else {
    rows = tensor->values;
  }
  if (tensor->rope == RopeState::post) return;
  const RowMatrix exact = entry_rows(block, tensors, is_key);
  std::size_t first = 0;
  for (std::int64_t entry = 0; entry < rows.rows(); ++entry) {
    const auto size = static_cast<std::size_t>(block.entry_size[static_cast<std::size_t>(entry)]);
    if (entry < tensor->num_encoded) {
      rotate_to(rows, entry, tensors.rope, centre_of(block, first, size));
    } else {
      rows.row(entry) = exact.row(entry);
    }
    first += size;
  }
}

/// Turns the kept keys to where the setting places them.
void place_keys(const Compression& setting, const WorkingHead& head, std::int64_t num_positions, RowMatrix& keys) {
  if (setting.positions == PositionCoding::original) return;
  std::vector<double> centre;
  std::vector<std::uint8_t> is_free;
  for (const WorkingBlock& block : head.blocks) {
    std::size_t first = 0;
    for (const std::int32_t size : block.entry_size) {
      double sum = 0;
      for (std::int32_t member = 0; member < size; ++member) sum += static_cast<double>(block.positions[first++]);
      centre.push_back(sum / size);
      is_free.push_back(block.block.is_protected ? 0 : 1);
    }
  }
  const auto turns = position_turns(setting.positions, centre, is_free, num_positions, setting.smooth_width);
  for (std::size_t entry = 0; entry < turns.size(); ++entry) {
    if (turns[entry] == 0) continue;
    const auto row = static_cast<std::int64_t>(entry);
    head.tensors->rope.rotate({keys.row(row).data(), static_cast<std::size_t>(keys.cols())}, turns[entry]);
  }
}

EntryTable entry_table(const Compression& setting, const WorkingHead& head, std::int64_t num_positions) {
  const HeadTensors& tensors = *head.tensors;
  const std::int64_t num_later = tensors.num_positions() - num_positions;
  std::int64_t num_entries = num_later;
  for (const WorkingBlock& block : head.blocks) num_entries += block.num_entries();
  EntryTable table;
  table.k.resize(num_entries, tensors.head_dim());
  table.v.resize(num_entries, tensors.head_dim());
  table.bias.assign(static_cast<std::size_t>(num_entries), 0.0F);
  table.entry_of.assign(static_cast<std::size_t>(tensors.num_positions()), -1);
  std::int64_t next = 0;
  for (const WorkingBlock& block : head.blocks) {
    if (block.num_entries() == 0) continue;
    decode_rows(block.k, block, tensors, true, table.k.middleRows(next, block.num_entries()));
    decode_rows(block.v, block, tensors, false, table.v.middleRows(next, block.num_entries()));
    std::size_t first = 0;
    for (const std::int32_t size : block.entry_size) {
      if (block.is_mass_corrected && size > 1)
        table.bias[static_cast<std::size_t>(next)] = std::log(static_cast<float>(size));
      for (std::int32_t member = 0; member < size; ++member) {
        table.entry_of[static_cast<std::size_t>(block.positions[first++])] = static_cast<std::int32_t>(next);
      }
      ++next;
    }
  }
  place_keys(setting, head, num_positions, table.k);
  table.k.bottomRows(num_later) = tensors.k_post.bottomRows(num_later);
  table.v.bottomRows(num_later) = tensors.v.bottomRows(num_later);
  for (std::int64_t later = 0; later < num_later; ++later) {
    table.entry_of[static_cast<std::size_t>(num_positions + later)] = static_cast<std::int32_t>(next + later);
  }
  return table;
}

WorkingLayer uncompressed(const Compression& setting, std::int64_t num_positions, std::int64_t num_heads,
                          std::int64_t head_dim, const LayerScores& scores, const LayerTensors* tensors) {
  WorkingLayer layer{.num_positions = num_positions, .head_dim = head_dim, .heads = {}, .scores = &scores};
  WorkingHead head;
  for (const Block& block : partition_blocks(setting, num_positions)) {
    WorkingBlock& working = head.blocks.emplace_back();
    working.block = block;
    for (std::int64_t position = block.begin; position < block.end; ++position) working.positions.push_back(position);
    working.entry_size.assign(working.positions.size(), 1);
  }
  layer.heads.assign(static_cast<std::size_t>(num_heads), head);
  if (tensors != nullptr) {
    for (std::size_t index = 0; index < layer.heads.size(); ++index) layer.heads[index].tensors = &(*tensors)[index];
  }
  return layer;
}

/// The cache of a setting that evicts once and does nothing else: runs say it all, no block is built.
LayerCache evicted_layer(const Compression& setting, std::int64_t num_positions, std::int64_t head_dim,
                         const LayerScores& scores, const LayerTensors* tensors) {
  const StoredForm recorded = recorded_form(head_dim);
  const std::vector<Block> blocks = partition_blocks(setting, num_positions);
  const std::vector<PositionRuns> evicted = evicted_runs(setting, blocks, num_positions, scores);
  LayerCache result;
  for (std::size_t head_index = 0; head_index < evicted.size(); ++head_index) {
    HeadCache& cache = result.heads.emplace_back();
    cache.num_positions = tensors != nullptr ? (*tensors)[head_index].num_positions() : num_positions;
    cache.num_blocks = static_cast<std::int64_t>(blocks.size());
    cache.protected_blocks = std::ranges::count(blocks, true, &Block::is_protected);
    cache.segments.reserve(evicted[head_index].size() + 1);
    std::int64_t next = 0;
    const auto keep_until = [&](std::int64_t end) {
      if (end > next) cache.segments.push_back({next, end, end - next, recorded, recorded, 0, 0});
    };
    for (const PositionRun& run : evicted[head_index]) {
      keep_until(run.begin);
      next = run.end;
    }
    keep_until(cache.num_positions);
    const auto settle = [&](const HeadTensors* head) {
      settle_rest({.stage = std::get<Evict>(setting.stages.front()),
                   .num_positions = num_positions,
                   .head_dim = head_dim,
                   .evicted = evicted[head_index],
                   .scores = scores[head_index],
                   .tensors = head},
                  cache);
    };
    if (tensors == nullptr) {
      settle(nullptr);
      continue;
    }
    EntryTable& table = cache.entries.emplace();
    table.is_recorded = true;
    table.entry_of.assign(static_cast<std::size_t>(cache.num_positions), -1);
    std::int32_t entry = 0;
    for (const Segment& segment : cache.segments) {
      for (std::int64_t position = segment.begin; position < segment.end; ++position) {
        table.entry_of[static_cast<std::size_t>(position)] = entry++;
      }
    }
    settle(&(*tensors)[head_index]);
  }
  return result;
}

}  // namespace

LayerCache compress_layer(const Compression& setting, std::int64_t num_positions, std::int64_t num_heads,
                          std::int64_t head_dim, const LayerScores& scores, const LayerTensors* tensors) {
  if (const auto problems = contradictions(setting, head_dim); !problems.empty()) throw InputError(problems.front());
  KVTIDE_ASSERT(tensors == nullptr || static_cast<std::int64_t>(tensors->size()) == num_heads,
                "one tensor set per KV head");
  if (setting.stages.size() == 1 && std::holds_alternative<Evict>(setting.stages.front()) &&
      !has_overlapping_blocks(setting) && !keeps_anchor_tokens(setting) &&
      setting.positions == PositionCoding::original) {
    return evicted_layer(setting, num_positions, head_dim, scores, tensors);
  }
  const LayerScores widened = scores_with_halo(setting, num_positions, scores);
  WorkingLayer layer = uncompressed(setting, num_positions, num_heads, head_dim, widened, tensors);
  std::vector<std::int64_t> anchors;
  for (WorkingHead& head : layer.heads) anchors = set_anchors_aside(setting, head);  // the same ones in every head
  const auto num_anchors = static_cast<std::int64_t>(anchors.size());
  for (Stage stage : setting.stages) {
    if (auto* evict = std::get_if<Evict>(&stage)) {
      evict->keep = keep_beside_anchors(evict->keep, num_positions, num_anchors);
      for (PartsPerMillion& keep : evict->head_keep) keep = keep_beside_anchors(keep, num_positions, num_anchors);
    }
    std::visit([&](const auto& s) { apply(s, layer); }, stage);
  }

  LayerCache result;
  for (WorkingHead& head : layer.heads) {
    HeadCache& cache = result.heads.emplace_back();
    cache.num_positions = num_positions;
    cache.num_blocks = static_cast<std::int64_t>(head.blocks.size());
    for (const WorkingBlock& block : head.blocks) cache.protected_blocks += block.block.is_protected ? 1 : 0;
    if (has_overlapping_blocks(setting)) cache.copies = resolve_overlap(setting, head_dim, head);
    restore_anchors(anchors, head);
    for (const WorkingBlock& block : head.blocks) append_segments(block, head_dim, cache.segments);
    if (!anchors.empty()) std::ranges::stable_sort(cache.segments, {}, &Segment::begin);
    if (tensors == nullptr) continue;
    const std::int64_t total = head.tensors->num_positions();
    if (total > num_positions) {
      WorkingBlock later;
      for (std::int64_t position = num_positions; position < total; ++position) later.positions.push_back(position);
      later.entry_size.assign(later.positions.size(), 1);
      append_segments(later, head_dim, cache.segments);
      cache.num_positions = total;
    }
    cache.entries = entry_table(setting, head, num_positions);
  }
  return result;
}

}  // namespace kvtide::kv
