#include "kv/compression/overlap.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kv/compression/integer_codec.h"

namespace kvtide::kv {
namespace {

constexpr std::int32_t kNobody = -1;

/// Index of the block each position is read from.
std::vector<std::int32_t> readers(const Compression& setting, const WorkingHead& head) {
  std::int64_t num_positions = 0;
  for (const WorkingBlock& block : head.blocks) num_positions = std::max(num_positions, block.block.end);
  std::vector<std::int32_t> reader(static_cast<std::size_t>(num_positions), kNobody);
  const bool core_first = setting.partition.storage == OverlapStorage::quantized_halo;
  for (std::size_t index = 0; index < head.blocks.size(); ++index) {
    const WorkingBlock& block = head.blocks[index];
    for (const std::int64_t position : block.positions) {
      std::int32_t& current = reader[static_cast<std::size_t>(position)];
      if (current != kNobody) {
        const WorkingBlock& other = head.blocks[static_cast<std::size_t>(current)];
        const auto depth = [position](const WorkingBlock& of) {
          return std::min(position - of.block.begin, of.block.end - 1 - position);
        };
        const bool other_is_exact = other.block.is_protected && !block.block.is_protected;
        const bool this_is_exact = block.block.is_protected && !other.block.is_protected;
        // With core_first the window before holds this position in its halo.
        if (other_is_exact || (!this_is_exact && !core_first && depth(other) > depth(block))) continue;
      }
      current = static_cast<std::int32_t>(index);
    }
  }
  return reader;
}

void keep_rows(std::optional<StoredTensor>& tensor, const std::vector<std::int64_t>& entries) {
  if (!tensor) return;
  std::int64_t encoded = 0;
  for (const std::int64_t entry : entries) encoded += entry < tensor->num_encoded ? 1 : 0;
  tensor->num_encoded = encoded;
  if (tensor->values.size() == 0) return;
  RowMatrix values(static_cast<std::int64_t>(entries.size()), tensor->values.cols());
  for (std::size_t row = 0; row < entries.size(); ++row) {
    values.row(static_cast<std::int64_t>(row)) = tensor->values.row(entries[row]);
  }
  tensor->values = std::move(values);
}

StoredForm form_of(const std::optional<StoredTensor>& tensor, std::int64_t head_dim) {
  return tensor ? tensor->form : recorded_form(head_dim);
}

StoredForm halo_form(std::int64_t head_dim) {
  return {StoredForm::Kind::coded, 4, static_cast<std::int32_t>(head_dim), "int4",
          static_cast<std::int32_t>(ceil_div(head_dim, 2))};
}

/// Entries of a block by who reads them; an entry is read when one of its members is.
struct Split {
  std::vector<std::int64_t> read;
  std::vector<std::int64_t> unread;
};

/// Shortens a block to the members it is read for.
Split cut_to_read(WorkingBlock& block, const std::vector<std::int32_t>& reader, std::int32_t index) {
  Split split;
  std::vector<std::int64_t> positions;
  std::vector<std::int32_t> entry_size;
  std::size_t first = 0;
  for (std::int64_t entry = 0; entry < block.num_entries(); ++entry) {
    const auto size = static_cast<std::size_t>(block.entry_size[static_cast<std::size_t>(entry)]);
    std::int32_t owned = 0;
    for (std::size_t member = first; member < first + size; ++member) {
      const std::int64_t position = block.positions[member];
      if (reader[static_cast<std::size_t>(position)] != index) continue;
      positions.push_back(position);
      ++owned;
    }
    if (owned > 0) entry_size.push_back(owned);
    (owned > 0 ? split.read : split.unread).push_back(entry);
    first += size;
  }
  block.positions = std::move(positions);
  block.entry_size = std::move(entry_size);
  keep_rows(block.k, split.read);
  keep_rows(block.v, split.read);
  return split;
}

StoredTensor encode_halo(const WorkingBlock& block, const HeadTensors* tensors, std::int64_t head_dim, bool is_key) {
  const auto& stored = is_key ? block.k : block.v;
  StoredTensor halo;
  halo.form = halo_form(head_dim);
  halo.num_encoded = block.num_entries();
  halo.metadata = static_cast<Bytes>(block.num_entries()) * kHaloRowMetadata;
  if (tensors == nullptr) return halo;
  halo.values = stored ? (stored->basis.size() > 0 ? RowMatrix(stored->values * stored->basis) : stored->values)
                       : entry_rows(block, *tensors, is_key);
  if (stored) halo.rope = stored->rope;
  quantize_rows(halo.values, 0, halo.values.rows(), {.bits = 4, .group = head_dim}, GroupAxis::token);
  return halo;
}

/// Moves what lies behind the block's own stride into a block of its own, in 4 bits.
WorkingBlock take_halo(WorkingBlock& block, const HeadTensors* tensors, std::int64_t head_dim) {
  WorkingBlock halo = block;
  std::vector<std::int64_t> own;
  std::vector<std::int64_t> behind;
  std::size_t first = 0;
  std::vector<std::int64_t> own_positions;
  std::vector<std::int32_t> own_sizes;
  halo.positions.clear();
  halo.entry_size.clear();
  for (std::int64_t entry = 0; entry < block.num_entries(); ++entry) {
    const auto size = static_cast<std::size_t>(block.entry_size[static_cast<std::size_t>(entry)]);
    const bool is_own = block.positions[first] < block.block.core_end;
    (is_own ? own : behind).push_back(entry);
    (is_own ? own_sizes : halo.entry_size).push_back(static_cast<std::int32_t>(size));
    auto& to = is_own ? own_positions : halo.positions;
    for (std::size_t member = first; member < first + size; ++member) to.push_back(block.positions[member]);
    first += size;
  }
  block.positions = std::move(own_positions);
  block.entry_size = std::move(own_sizes);
  keep_rows(halo.k, behind);
  keep_rows(halo.v, behind);
  keep_rows(block.k, own);
  keep_rows(block.v, own);
  if (halo.num_entries() > 0) {
    StoredTensor k = encode_halo(halo, tensors, head_dim, true);
    halo.v = encode_halo(halo, tensors, head_dim, false);
    halo.k = std::move(k);
  }
  return halo;
}

}  // namespace

bool scores_span_halo(const Compression& setting) {
  return setting.partition.kind == PartitionKind::overlap && !has_overlapping_blocks(setting);
}

LayerScores scores_with_halo(const Compression& setting, std::int64_t num_positions, const LayerScores& scores) {
  if (!scores_span_halo(setting)) return scores;
  const auto reach =
      static_cast<std::int64_t>(static_cast<__int128>(setting.block_size) * setting.partition.overlap_ppm / 2'000'000);
  LayerScores widened = scores;
  const std::vector<Block> blocks = partition_blocks(setting, num_positions);
  for (std::size_t head = 0; head < scores.size(); ++head) {
    const auto add = [&](std::int64_t to, std::int64_t from) {
      if (from < 0 || from >= num_positions) return;
      widened[head][static_cast<std::size_t>(to)] += scores[head][static_cast<std::size_t>(from)];
    };
    for (const Block& block : blocks) {
      for (std::int64_t step = 0; step < std::min(reach, block.end - block.begin); ++step) {
        add(block.begin + step, block.begin - 1 - step);
        add(block.end - 1 - step, block.end + step);
      }
    }
  }
  return widened;
}

std::vector<Segment> resolve_overlap(const Compression& setting, std::int64_t head_dim, WorkingHead& head) {
  std::vector<Segment> copies;
  const std::vector<std::int32_t> reader = readers(setting, head);
  const bool has_halo = setting.partition.storage == OverlapStorage::quantized_halo;
  std::vector<WorkingBlock> blocks;
  for (std::size_t index = 0; index < head.blocks.size(); ++index) {
    WorkingBlock& block = head.blocks[index];
    const WorkingBlock whole = block;
    const Split split = cut_to_read(block, reader, static_cast<std::int32_t>(index));
    if (setting.partition.storage != OverlapStorage::union_once && !split.unread.empty()) {
      const auto count = static_cast<std::int64_t>(split.unread.size());
      Segment copy{whole.block.begin, whole.block.end, count, form_of(whole.k, head_dim), form_of(whole.v, head_dim)};
      if (has_halo) {
        copy.k_form = copy.v_form = halo_form(head_dim);
        copy.k_metadata = copy.v_metadata = static_cast<Bytes>(count) * kHaloRowMetadata;
      }
      copies.push_back(copy);
    }
    // A protected window is kept as it is, its halo too.
    std::optional<WorkingBlock> halo;
    if (has_halo && !block.block.is_protected) halo = take_halo(block, head.tensors, head_dim);
    blocks.push_back(std::move(block));
    if (halo && halo->num_entries() > 0) blocks.push_back(std::move(*halo));
  }
  head.blocks = std::move(blocks);
  return copies;
}

}  // namespace kvtide::kv
