#include "kv/compression/future_queries.h"

#include <cmath>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {

Eigen::VectorXf MeanRotation::of_vector(const Eigen::VectorXf& channels) const {
  const Eigen::VectorXd x = channels.cast<double>();
  Eigen::VectorXd turned(x.size());
  turned << cosine.cwiseProduct(x.head(cosine.size())) - sine.cwiseProduct(x.tail(sine.size())),
      sine.cwiseProduct(x.head(sine.size())) + cosine.cwiseProduct(x.tail(cosine.size()));
  return turned.cast<float>();
}

Eigen::MatrixXd MeanRotation::of_covariance(const Eigen::MatrixXd& spread) const {
  const std::int64_t half = cosine.size();
  const auto c = cosine.asDiagonal();
  const auto s = sine.asDiagonal();
  Eigen::MatrixXd rows(2 * half, 2 * half);
  rows.topRows(half) = c * spread.topRows(half) - s * spread.bottomRows(half);
  rows.bottomRows(half) = s * spread.topRows(half) + c * spread.bottomRows(half);
  Eigen::MatrixXd turned(2 * half, 2 * half);
  turned.leftCols(half) = rows.leftCols(half) * c - rows.rightCols(half) * s;
  turned.rightCols(half) = rows.leftCols(half) * s + rows.rightCols(half) * c;
  return turned;
}

MeanRotation mean_rotation(const Rope& rope, std::int64_t head_dim, std::int64_t first, std::int64_t count) {
  const std::int64_t half = head_dim / 2;
  MeanRotation rotation{Eigen::VectorXd::Ones(half), Eigen::VectorXd::Zero(half)};
  if (rope.theta == 0 || count == 0) return rotation;
  // The sum of e^(i f p) over the positions is e^(i f middle) sin(count f / 2) / sin(f / 2).
  const auto terms = static_cast<double>(count);
  const double middle = static_cast<double>(first) + (terms - 1) / 2;
  for (std::int64_t pair = 0; pair < half; ++pair) {
    const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
    const double length = std::sin(terms * frequency / 2) / (terms * std::sin(frequency / 2));
    rotation.cosine[pair] = length * std::cos(frequency * middle);
    rotation.sine[pair] = length * std::sin(frequency * middle);
  }
  return rotation;
}

void visit_queries_before_rope(const HeadTensors& head, std::int64_t first, std::int64_t end, const char* scorer,
                               const std::function<void(const Eigen::Ref<const RowMatrix>&)>& visit) {
  const QueryRows rows = query_rows(head, first, end, scorer);
  const bool is_kept = head.q_pre.rows() == head.q_post.rows();
  std::vector<std::int64_t> back;
  for (std::int64_t row = rows.begin; row < rows.end && !is_kept; ++row) {
    back.push_back(-head.q_positions[static_cast<std::size_t>(row)]);
  }
  RowMatrix turned;
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    const std::int64_t begin = query_head * head.num_queries() + rows.begin;
    if (is_kept) {
      visit(head.q_pre.middleRows(begin, rows.size()));
      continue;
    }
    turned = head.q_post.middleRows(begin, rows.size());
    head.rope.rotate_rows(turned.data(), turned.rows(), turned.cols(), back);
    visit(turned);
  }
}

}  // namespace kvtide::kv
