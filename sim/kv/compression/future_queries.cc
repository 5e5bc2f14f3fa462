#include "kv/compression/future_queries.h"

#include <cmath>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {

Eigen::MatrixXf mean_rotation(const Rope& rope, std::int64_t head_dim, std::int64_t first, std::int64_t count) {
  if (rope.theta == 0 || count == 0) return Eigen::MatrixXf::Identity(head_dim, head_dim);
  Eigen::MatrixXf rotation = Eigen::MatrixXf::Zero(head_dim, head_dim);
  const std::int64_t half = head_dim / 2;
  for (std::int64_t pair = 0; pair < half; ++pair) {
    const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
    double cosine = 0;
    double sine = 0;
    for (std::int64_t position = first; position < first + count; ++position) {
      cosine += std::cos(frequency * static_cast<double>(position));
      sine += std::sin(frequency * static_cast<double>(position));
    }
    const auto c = static_cast<float>(cosine / static_cast<double>(count));
    const auto s = static_cast<float>(sine / static_cast<double>(count));
    rotation(pair, pair) = c;
    rotation(pair, pair + half) = -s;
    rotation(pair + half, pair) = s;
    rotation(pair + half, pair + half) = c;
  }
  return rotation;
}

std::vector<RowMatrix> queries_before_rope(const HeadTensors& head, std::int64_t first, std::int64_t end,
                                           const char* scorer) {
  const QueryRows rows = query_rows(head, first, end, scorer);
  const bool is_kept = head.q_pre.rows() == head.q_post.rows();
  const RowMatrix& source = is_kept ? head.q_pre : head.q_post;
  std::vector<std::int64_t> back;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    back.push_back(-head.q_positions[static_cast<std::size_t>(row)]);
  }
  std::vector<RowMatrix> queries;
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    RowMatrix& of_head =
        queries.emplace_back(source.middleRows(query_head * head.num_queries() + rows.begin, rows.size()));
    if (!is_kept) head.rope.rotate_rows(of_head.data(), of_head.rows(), of_head.cols(), back);
  }
  return queries;
}

}  // namespace kvtide::kv
