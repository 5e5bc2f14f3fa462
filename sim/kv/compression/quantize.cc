#include "kv/compression/quantize.h"

#include <algorithm>

#include "kv/compression/codec.h"

namespace kvtide::kv {
namespace {

/// Entries whose positions all lie below `limit`.
std::int64_t entries_before(const WorkingBlock& block, std::int64_t limit) {
  std::int64_t count = 0;
  std::size_t last = 0;
  for (const std::int32_t size : block.entry_size) {
    last += static_cast<std::size_t>(size);
    if (block.positions[last - 1] >= limit) break;
    ++count;
  }
  return count;
}

/// A block's rows as the codec sees them.
struct Part {
  WorkingBlock* block = nullptr;
  StoredTensor* tensor = nullptr;
  std::int64_t num_rows = 0;
};

StoredTensor& stored(std::optional<StoredTensor>& tensor, const WorkingBlock& block, const HeadTensors* tensors,
                     std::int64_t head_dim, bool is_key, RopeState rope) {
  if (!tensor) {
    tensor.emplace();
    tensor->form = recorded_form(head_dim);
    tensor->rope = is_key ? rope : RopeState::post;
    if (tensors != nullptr) tensor->values = entry_rows(block, *tensors, is_key, tensor->rope);
  }
  return *tensor;
}

/// All rows of the head as one matrix, through the codec, and back.
void code(const CodecUse& use, const std::vector<Part>& parts, const HeadTensors& tensors) {
  std::vector<std::int64_t> block_rows;
  std::vector<std::int64_t> positions;
  std::int64_t num_rows = 0;
  for (const Part& part : parts) {
    block_rows.push_back(part.num_rows);
    num_rows += part.num_rows;
    std::size_t first = 0;
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      positions.push_back(part.block->positions[first]);
      first += static_cast<std::size_t>(part.block->entry_size[static_cast<std::size_t>(row)]);
    }
  }
  RowMatrix values(num_rows, parts.front().tensor->values.cols());
  std::int64_t next = 0;
  for (const Part& part : parts) {
    values.middleRows(next, part.num_rows) = part.tensor->values.topRows(part.num_rows);
    next += part.num_rows;
  }
  use.codec->code(use, {&values, block_rows, positions, &tensors});
  next = 0;
  for (const Part& part : parts) {
    part.tensor->values.topRows(part.num_rows) = values.middleRows(next, part.num_rows);
    next += part.num_rows;
  }
}

void quantize_tensor(const Quantize& stage, const Codec& codec, WorkingHead& head, std::int64_t head_dim, bool is_key,
                     std::int64_t limit) {
  std::vector<Part> parts;
  for (WorkingBlock& block : head.blocks) {
    if (!block.is_free()) continue;
    const std::int64_t num_rows = entries_before(block, limit);
    if (num_rows == 0) continue;
    auto& tensor = is_key ? block.k : block.v;
    parts.push_back({&block, &stored(tensor, block, head.tensors, head_dim, is_key, stage.k_rope), num_rows});
  }
  if (parts.empty()) return;
  CodecUse use{&codec, &stage, is_key, parts.front().tensor->form.columns};
  if (head.tensors != nullptr) code(use, parts, *head.tensors);
  if (codec.head_metadata != nullptr) parts.front().tensor->metadata += codec.head_metadata(use);
  for (const Part& part : parts) {
    StoredTensor& tensor = *part.tensor;
    use.columns = tensor.form.columns;
    if (codec.block_metadata != nullptr) tensor.metadata += codec.block_metadata(use, part.num_rows);
    tensor.num_encoded = part.num_rows;
    tensor.form.bits = codec.bits;
    tensor.form.codec = codec.name;
    tensor.form.row_bytes = static_cast<std::int32_t>(codec.row_bytes(use));
    if (tensor.form.kind == StoredForm::Kind::fp16) tensor.form.kind = StoredForm::Kind::coded;
  }
}

}  // namespace

void apply(const Quantize& stage, WorkingLayer& layer) {
  const std::int64_t n = layer.num_positions;
  std::int64_t k_limit = stage.residual == 0 ? n : n - n % stage.residual;
  std::int64_t v_limit = std::max<std::int64_t>(0, n - stage.residual);
  if (stage.residual > 0 && stage.residual_start != 0) {
    const std::int64_t start = stage.residual_start == kFromPrompt ? n : std::min(stage.residual_start, n);
    k_limit = v_limit = n - (n - start) % stage.residual;
  }
  const Codec& k_codec = find_codec(stage.k_format);
  const Codec& v_codec = find_codec(stage.v_format);
  for (WorkingHead& head : layer.heads) {
    if (!k_codec.is_exact) quantize_tensor(stage, k_codec, head, layer.head_dim, true, k_limit);
    if (!v_codec.is_exact) quantize_tensor(stage, v_codec, head, layer.head_dim, false, v_limit);
  }
}

}  // namespace kvtide::kv
