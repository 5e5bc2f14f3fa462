#include "kv/compression/integer_codec.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {
namespace {

float to_half(float x) {
  return static_cast<float>(static_cast<Eigen::half>(x));
}

constexpr Bytes kFp16Bytes = 2;

Bytes metadata_of_group(bool is_symmetric) {
  return is_symmetric ? kFp16Bytes : 2 * kFp16Bytes;
}

template <typename Group>
void encode_and_decode(Group&& group, const Quantize& stage) {
  const float largest_code = static_cast<float>((1 << (stage.is_symmetric ? stage.bits - 1 : stage.bits)) - 1);
  const float smallest_code = stage.is_symmetric ? -largest_code : 0.0F;
  const float zero = stage.is_symmetric ? 0.0F : to_half(group.minCoeff());
  const float range = stage.is_symmetric ? group.cwiseAbs().maxCoeff() : group.maxCoeff() - zero;
  const float scale = to_half(range / largest_code);
  if (scale == 0) {
    group.setConstant(zero);
    return;
  }
  group = ((group.array() - zero) / scale).round().max(smallest_code).min(largest_code).matrix() * scale;
  group.array() += zero;
}

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

void quantize_tensor(const Quantize& stage, const WorkingBlock& block, const HeadTensors* tensors,
                     std::int64_t head_dim, bool is_key, std::int64_t limit, std::optional<StoredTensor>& tensor) {
  const std::int64_t num_encoded = entries_before(block, limit);
  if (num_encoded == 0) return;
  if (!tensor) {
    tensor.emplace();
    tensor->form = {StoredForm::Kind::fp16, 16, static_cast<std::int32_t>(head_dim)};
    if (tensors != nullptr) tensor->values = entry_rows(block, *tensors, is_key);
  }
  const GroupAxis axis = is_key ? stage.k_axis : stage.v_axis;
  if (tensor->values.size() > 0) quantize_rows(tensor->values, num_encoded, stage, axis);
  tensor->metadata += group_metadata_bytes(num_encoded, tensor->form.columns, stage, axis);
  tensor->num_encoded = num_encoded;
  tensor->form.bits = stage.bits;
  if (tensor->form.kind == StoredForm::Kind::fp16) tensor->form.kind = StoredForm::Kind::integer;
}

}  // namespace

Bytes group_metadata_bytes(std::int64_t num_rows, std::int64_t columns, const Quantize& stage, GroupAxis axis) {
  const std::int64_t num_groups = axis == GroupAxis::channel ? ceil_div(num_rows, stage.group) * columns
                                                             : num_rows * ceil_div(columns, stage.group);
  return static_cast<Bytes>(num_groups) * metadata_of_group(stage.is_symmetric);
}

double effective_bits(std::int32_t bits, std::int64_t group, bool is_symmetric) {
  return bits + 8.0 * static_cast<double>(metadata_of_group(is_symmetric)) / static_cast<double>(group);
}

void quantize_rows(RowMatrix& values, std::int64_t num_rows, const Quantize& stage, GroupAxis axis) {
  if (axis == GroupAxis::channel) {
    for (std::int64_t row = 0; row < num_rows; row += stage.group) {
      const std::int64_t rows = std::min(stage.group, num_rows - row);
      for (std::int64_t column = 0; column < values.cols(); ++column) {
        encode_and_decode(values.col(column).segment(row, rows), stage);
      }
    }
  } else {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t column = 0; column < values.cols(); column += stage.group) {
        encode_and_decode(values.row(row).segment(column, std::min(stage.group, values.cols() - column)), stage);
      }
    }
  }
}

void apply(const Quantize& stage, WorkingLayer& layer) {
  const std::int64_t n = layer.num_positions;
  const std::int64_t k_limit = stage.residual == 0 ? n : n - n % stage.residual;
  const std::int64_t v_limit = std::max<std::int64_t>(0, n - stage.residual);
  for (WorkingHead& head : layer.heads) {
    for (WorkingBlock& block : head.blocks) {
      if (!block.is_free()) continue;
      quantize_tensor(stage, block, head.tensors, layer.head_dim, true, k_limit, block.k);
      quantize_tensor(stage, block, head.tensors, layer.head_dim, false, v_limit, block.v);
    }
  }
}

}  // namespace kvtide::kv
