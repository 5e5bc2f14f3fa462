#include "kv/compression/low_rank.h"

#include <Eigen/Eigenvalues>
#include <algorithm>

#include "kv/compression/channel_mask.h"

namespace kvtide::kv {
namespace {

/// Right singular vectors of the largest singular values, [rank, column]: eigenvectors of the Gram matrix, in float64
/// because that squares the condition.
RowMatrix basis_of(const RowMatrix& rows, std::int64_t rank) {
  const Eigen::MatrixXd gram = rows.transpose().cast<double>() * rows.cast<double>();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(gram);
  RowMatrix basis = eigen.eigenvectors().rightCols(rank).rowwise().reverse().transpose().cast<float>();
  round_to_half(basis);
  return basis;
}

/// The kept channels as rows of ones and zeros, [rank, head_dim].
RowMatrix channel_basis(const HeadTensors& head, std::int64_t num_positions, std::int64_t window, std::int64_t rank) {
  const std::vector<bool> is_kept = kept_channels(head, num_positions, window, rank);
  RowMatrix basis = RowMatrix::Zero(rank, head.head_dim());
  std::int64_t row = 0;
  for (std::size_t channel = 0; channel < is_kept.size(); ++channel) {
    if (is_kept[channel]) basis(row++, static_cast<std::int64_t>(channel)) = 1;
  }
  return basis;
}

/// K or V of one block in each of the heads that are factorised together.
struct Target {
  std::vector<WorkingBlock*> of_head;
  std::int64_t num_rows = 0;
};

class Factorisation {
 public:
  Factorisation(const LowRank& stage, std::vector<WorkingHead*> heads, std::int64_t head_dim, bool is_key,
                std::int64_t num_positions)
      : stage_(stage), heads_(std::move(heads)), head_dim_(head_dim), is_key_(is_key), num_positions_(num_positions) {}

  void run() {
    columns_ = stage_.columns(is_key_, head_dim_);
    if (columns_ >= head_dim_) return;
    std::vector<Target> targets;
    for (std::size_t index = 0; index < heads_.front()->blocks.size(); ++index) {
      Target target;
      for (WorkingHead* head : heads_) target.of_head.push_back(&head->blocks[index]);
      const WorkingBlock& first = *target.of_head.front();
      target.num_rows = first.num_entries();
      // A block left with no more entries than the rank has nothing to gain from a basis of its own.
      const bool gains = stage_.scope != BasisScope::block || target.num_rows > columns_;
      if (first.is_free() && gains) targets.push_back(std::move(target));
    }
    if (targets.empty()) return;
    if (stage_.scope == BasisScope::block) {
      for (Target& target : targets) factorise({&target, 1});
    } else {
      factorise(targets);
    }
  }

 private:
  [[nodiscard]] RowMatrix rows_of(const Target& target) const {
    RowMatrix rows(target.num_rows, head_dim_ * std::ssize(heads_));
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      rows.middleCols(static_cast<std::int64_t>(head) * head_dim_, head_dim_) =
          entry_rows(*target.of_head[head], *heads_[head]->tensors, is_key_, is_key_ ? stage_.k_rope : RopeState::post);
    }
    return rows;
  }

  void factorise(std::span<Target> targets) {
    const bool has_numbers = heads_.front()->tensors != nullptr;
    const std::int64_t joint_rank = columns_ * std::ssize(heads_);
    RowMatrix basis;
    if (has_numbers && stage_.keeps_channels) {
      basis = channel_basis(*heads_.front()->tensors, num_positions_, stage_.channel_window, joint_rank);
    } else if (has_numbers) {
      std::int64_t num_rows = 0;
      for (const Target& target : targets) num_rows += target.num_rows;
      RowMatrix all(num_rows, head_dim_ * std::ssize(heads_));
      std::int64_t next = 0;
      for (const Target& target : targets) {
        all.middleRows(next, target.num_rows) = rows_of(target);
        next += target.num_rows;
      }
      basis = basis_of(all, joint_rank);
    }
    for (std::size_t index = 0; index < targets.size(); ++index) store(targets[index], basis, index == 0);
  }

  void store(Target& target, const RowMatrix& basis, bool holds_basis) {
    RowMatrix coefficients;
    if (basis.size() > 0) {
      coefficients = rows_of(target) * basis.transpose();
      round_to_half(coefficients);
    }
    // What a served head rebuilds a row from: the coefficients of all `heads` and `layers` that share them.
    const std::int64_t rank = columns_ * stage_.heads * stage_.layers;
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      StoredTensor stored;
      stored.form.kind = StoredForm::Kind::low_rank;
      stored.form.columns = static_cast<std::int32_t>(columns_);
      // A value basis that belongs to the weights is multiplied into the output projection: nothing is rebuilt (Palu, section
      // 3.2). Approximation: attention sums over the coefficients of all `heads` then, a 64th of what rebuilding would cost.
      const bool is_absorbed = !is_key_ && stage_.scope == BasisScope::model;
      stored.form.rank = stage_.keeps_channels || is_absorbed ? 0 : static_cast<std::int32_t>(rank);
      stored.form.layers = static_cast<std::int32_t>(stage_.layers);
      stored.rope = is_key_ ? stage_.k_rope : RopeState::post;
      stored.num_encoded = target.num_rows;
      if (holds_basis && stage_.keeps_channels) {
        stored.metadata = static_cast<Bytes>(head_dim_ + 7) / 8;
      } else if (holds_basis && stage_.scope != BasisScope::model) {
        stored.metadata = static_cast<Bytes>(rank) * static_cast<Bytes>(head_dim_) * 2;
      }
      if (basis.size() > 0) {
        stored.values = coefficients;
        stored.basis = basis.middleCols(static_cast<std::int64_t>(head) * head_dim_, head_dim_);
      }
      (is_key_ ? target.of_head[head]->k : target.of_head[head]->v) = std::move(stored);
    }
  }

  const LowRank& stage_;
  std::vector<WorkingHead*> heads_;
  std::int64_t head_dim_;
  bool is_key_;
  std::int64_t num_positions_;
  std::int64_t columns_ = 0;
};

}  // namespace

std::int64_t LowRank::columns(bool is_key, std::int64_t head_dim) const {
  const PartsPerMillion share = is_key ? k_share : v_share;
  if (share == 0) return std::min(rank, head_dim);
  return std::max<std::int64_t>(1, head_dim * share / 1'000'000);
}

void apply(const LowRank& stage, WorkingLayer& layer) {
  const auto num_heads = static_cast<std::int64_t>(layer.heads.size());
  for (std::int64_t first = 0; first < num_heads; first += stage.heads) {
    std::vector<WorkingHead*> group;
    for (std::int64_t head = first; head < std::min(first + stage.heads, num_heads); ++head) {
      group.push_back(&layer.heads[static_cast<std::size_t>(head)]);
    }
    for (const bool is_key : {true, false})
      Factorisation(stage, group, layer.head_dim, is_key, layer.num_positions).run();
  }
}

}  // namespace kvtide::kv
