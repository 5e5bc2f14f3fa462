#pragma once
// Recorded Q, K, V of one KV head of one layer: what a compression policy and the loss meter work on.

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "kv/rope.h"

namespace kvtide::kv {

/// [row, channel], float32, channel fastest.
using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct HeadTensors {
  RowMatrix k_pre;   ///< [position, head_dim] keys before RoPE
  RowMatrix k_post;  ///< [position, head_dim] keys after RoPE at their own position
  RowMatrix v;       ///< [position, head_dim]
  /// Queries after RoPE, the group's query heads stacked: row g * num_queries + i is query head g, query i.
  RowMatrix q_post;  ///< [group * query, head_dim]
  /// The same before RoPE, for scorers that model the distribution of queries; empty where nobody kept them.
  RowMatrix q_pre;
  std::vector<std::int64_t> q_positions;  ///< [query] ascending absolute positions
  std::int64_t group_size = 1;            ///< query heads that share this KV head
  float attention_scale = 1;              ///< multiplies q.k; 1/sqrt(head_dim) unless the model says otherwise
  Rope rope;                              ///< how k_post came from k_pre (none: theta 0)

  [[nodiscard]] std::int64_t num_positions() const { return k_post.rows(); }
  [[nodiscard]] std::int64_t num_queries() const { return static_cast<std::int64_t>(q_positions.size()); }
  [[nodiscard]] std::int64_t head_dim() const { return k_post.cols(); }
};

/// The KV heads of one layer. Policies that share a choice between heads see the whole layer.
using LayerTensors = std::vector<HeadTensors>;

}  // namespace kvtide::kv
