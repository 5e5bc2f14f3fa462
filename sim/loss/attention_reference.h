#pragma once
// What the measure queries see with the full cache: the exact side of every loss figure.
//
// Built once per trace and shared between runs; nothing in it changes afterwards, so any number of threads may read it.

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "kv/head_tensors.h"

namespace kvtide::loss {

/// [row, channel] or [row, position], float64, last index fastest.
using DoubleMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Absolute positions of the queries whose attention is measured, both ends included; of the recorded ones among them all, or
/// `sample` drawn at random (the same ones in every layer and head; sampling_error.h says how far off that may be).
struct MeasureQueries {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t sample = 0;  ///< 0: all of them
  std::uint64_t seed = 1;   ///< of the draw
};

/// One KV head of one layer under the measure queries of its group. Row g * num_queries + i is query head g, query i;
/// every row weighs the same (w = 1 / rows).
struct HeadReference {
  kv::RowMatrix q;                          ///< [row, head_dim] after RoPE
  std::vector<std::int64_t> row_positions;  ///< [row] absolute position; the row sees keys 0..row_positions[row]
  double scale = 1;                         ///< multiplies q.k
  kv::RowMatrix k;                          ///< [position, head_dim] after RoPE
  kv::RowMatrix v;                          ///< [position, head_dim]
  std::vector<float> k_distortion_factors;  ///< [channel] see bits_lost.h
  std::vector<float> v_distortion_factors;  ///< [channel]
  DoubleMatrix weights;                     ///< [row, position] a_ij; 0 beyond the row's own position
  /// [position, row] the same in float32, for products over many positions; zeros behind the rows fill whole registers
  /// (kv::whole_lanes).
  kv::RowMatrix weights_by_position;
  Eigen::VectorXd log_sum_exp;      ///< [row] ln Z_i = ln sum_j exp(s_ij)
  DoubleMatrix outputs;             ///< [row, head_dim] o_i = sum_j a_ij v_j
  std::vector<double> attention;    ///< [position] sum_i w_i a_ij; sums to 1 over positions
  std::int64_t num_queries = 0;     ///< measured ones; num_rows() a query head of the group
  std::int64_t num_candidates = 0;  ///< recorded queries that they were drawn from
  [[nodiscard]] std::int64_t num_rows() const { return weights.rows(); }
  [[nodiscard]] std::int64_t num_positions() const { return k.rows(); }
};

/// @param measure  queries of `head` inside these positions are measured
/// @throws InputError  when no recorded query lies there, shapes disagree, a score is not finite,
///                     or the weights would need more than 2 GiB
[[nodiscard]] HeadReference make_head_reference(const kv::HeadTensors& head, MeasureQueries measure);

/// The reference of a whole trace: [layer][kv_head].
class AttentionReference {
 public:
  explicit AttentionReference(MeasureQueries measure) : measure_(measure) {}

  /// Layers are handed over one at a time, so that a long trace is never in memory whole.
  void add_layer(const kv::LayerTensors& layer);

  [[nodiscard]] const std::vector<std::vector<HeadReference>>& layers() const { return layers_; }
  [[nodiscard]] std::int64_t num_layers() const { return static_cast<std::int64_t>(layers_.size()); }
  /// KV heads of all layers together.
  [[nodiscard]] std::int64_t num_heads() const;
  /// Positions of the trace; 0 before the first layer. Equal in all layers (checked).
  [[nodiscard]] std::int64_t num_positions() const;
  [[nodiscard]] MeasureQueries measure() const { return measure_; }

 private:
  MeasureQueries measure_;
  std::vector<std::vector<HeadReference>> layers_;
};

}  // namespace kvtide::loss
