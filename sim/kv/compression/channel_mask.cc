#include "kv/compression/channel_mask.h"

#include <algorithm>

#include "kv/compression/attention_columns.h"
#include "kv/compression/evict.h"

namespace kvtide::kv {

std::vector<bool> kept_channels(const HeadTensors& head, std::int64_t num_positions, std::int64_t window,
                                std::int64_t num_kept) {
  const QueryRows rows = query_rows(head, num_positions - std::min(window, num_positions), num_positions, "think");
  Eigen::RowVectorXd queries = Eigen::RowVectorXd::Zero(head.head_dim());
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    queries += head.q_post.middleRows(query_head * head.num_queries() + rows.begin, rows.size())
                   .cast<double>()
                   .array()
                   .square()
                   .colwise()
                   .sum()
                   .matrix();
  }
  const Eigen::RowVectorXd keys =
      head.k_post.topRows(num_positions).cast<double>().array().square().colwise().sum().matrix();
  const Eigen::RowVectorXd scores = queries.cwiseProduct(keys);  // constant factors do not change the order
  std::vector<bool> is_kept(static_cast<std::size_t>(head.head_dim()), false);
  for (const std::size_t channel : best_positions({scores.data(), is_kept.size()}, num_kept)) is_kept[channel] = true;
  return is_kept;
}

}  // namespace kvtide::kv
