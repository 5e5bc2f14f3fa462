#pragma once
// Loss of one head whose policy only evicts, for scans that ask thousands of sets of the same head. What stays is
// bitwise the recorded key and value, so nothing is compared and no softmax is computed anew. With the evicted
// positions' attention m_i = sum a_ij and output u_i = sum a_ij v_j of a query row i:
//   lost mass   mean of m_i over rows                      (an evicted key loses all it had, the others grow)
//   new output  ohat_i = (o_i - u_i) / (1 - m_i)
//   error E_i   |o_i - ohat_i| / |o_i| with o_i - ohat_i = (u_i - m_i o_i) / (1 - m_i)
// m and u are sums over runs of positions. From one set to the next they change by the stretches in which the sets
// differ: a grid that moves by one token changes two positions a run, whatever the block size.
//
// Example: four keys of equal score, values 1, 1, 3, 3, o = 2; the last two evicted: m = 1/2, u = 3/2,
// o - ohat = (3/2 - 1/2 * 2) / (1/2) = 1, E = 1/2.

#include <cstdint>
#include <vector>

#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

class EvictionLoss {
 public:
  /// @param reference           must outlive this; adds to it at most kMaxSumBytes a head, plus 8 B a row and position
  /// @param with_output_error   also follows u, the dearer part
  EvictionLoss(const HeadReference& reference, bool with_output_error);

  /// Replaces the evicted set. @param runs  within the reference's positions
  void evict(const kv::PositionRuns& runs);

  [[nodiscard]] double lost_mass() const;     ///< attention lost, summed over positions
  [[nodiscard]] double output_error() const;  ///< mean E over rows; NaN without with_output_error
  [[nodiscard]] const kv::PositionRuns& evicted() const { return evicted_; }

 private:
  static constexpr std::uint64_t kMaxSumBytes = 4U << 20U;

  [[nodiscard]] std::int64_t cost(std::int64_t begin, std::int64_t end) const;
  void add_outputs(std::int64_t begin, std::int64_t end, double sign);
  [[nodiscard]] double error_of_kept(std::int64_t row) const;

  const HeadReference& reference_;
  bool with_output_error_;
  std::int64_t spacing_ = 1;  ///< positions between two rows of output_sums_
  DoubleMatrix mass_sums_;    ///< [position + 1, row] sum of a_ij over positions below
  DoubleMatrix output_sums_;  ///< [position / spacing, row * head_dim] sum of a_ij v_j over positions below
  Eigen::VectorXd norms_;     ///< [row] |o_i|
  kv::PositionRuns evicted_;
  Eigen::RowVectorXd lost_;    ///< [row] m_i
  DoubleMatrix lost_outputs_;  ///< [row, head_dim] u_i
};

/// One a KV head, layer by layer: what scans of several settings share. @param reference  must outlive them
[[nodiscard]] std::vector<EvictionLoss> eviction_losses(const AttentionReference& reference, bool with_output_error);

}  // namespace kvtide::loss
