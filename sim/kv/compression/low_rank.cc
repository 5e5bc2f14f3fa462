#include "kv/compression/low_rank.h"

#include <Eigen/Eigenvalues>

namespace kvtide::kv {
namespace {

StoredTensor factorise(const LowRank& stage, const WorkingBlock& block, const HeadTensors* tensors,
                       std::int64_t head_dim, bool is_key) {
  StoredTensor stored;
  stored.form = {StoredForm::Kind::low_rank, 16, static_cast<std::int32_t>(stage.rank)};
  stored.metadata = static_cast<Bytes>(stage.rank) * static_cast<Bytes>(head_dim) * 2;
  stored.num_encoded = block.num_entries();
  if (tensors != nullptr) {
    const RowMatrix rows = entry_rows(block, *tensors, is_key);
    // Right singular vectors of the block: eigenvectors of its Gram matrix, in float64 because that squares the condition.
    const Eigen::MatrixXd gram = rows.transpose().cast<double>() * rows.cast<double>();
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(gram);
    const Eigen::MatrixXd basis = eigen.eigenvectors().rightCols(stage.rank).rowwise().reverse();
    stored.values = (rows.cast<double>() * basis).cast<float>();
    stored.basis = basis.transpose().cast<float>();
    round_to_half(stored.values);
    round_to_half(stored.basis);
  }
  return stored;
}

}  // namespace

void apply(const LowRank& stage, WorkingLayer& layer) {
  for (WorkingHead& head : layer.heads) {
    for (WorkingBlock& block : head.blocks) {
      // A block left with no more entries than the rank has nothing to gain and stays as it is.
      if (!block.is_free() || block.num_entries() <= stage.rank || stage.rank >= layer.head_dim) continue;
      block.k = factorise(stage, block, head.tensors, layer.head_dim, true);
      block.v = factorise(stage, block, head.tensors, layer.head_dim, false);
    }
  }
}

}  // namespace kvtide::kv
