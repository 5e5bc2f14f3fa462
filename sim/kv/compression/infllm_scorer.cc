#include "kv/compression/infllm_scorer.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

/// Mean product of each key with the `local` queries after it (fewer at the end), summed over the group.
Eigen::VectorXd local_products(const HeadTensors& head, const ScorerContext& context) {
  const std::int64_t size = context.num_positions;
  const std::int64_t local = context.integer("local");
  const QueryRows rows = query_rows(head, 0, size, "infllm");
  Eigen::MatrixXd before = Eigen::MatrixXd::Zero(size + 1, head.head_dim());  // [query]: sum of all earlier ones
  for (std::int64_t row = 0; row < size; ++row) {
    before.row(row + 1) = before.row(row);
    for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
      before.row(row + 1) += head.q_post.row(query_head * head.num_queries() + rows.begin + row).cast<double>();
    }
  }
  Eigen::VectorXd products(size);
  for (std::int64_t position = 0; position < size; ++position) {
    const std::int64_t first = std::min(position + 1, size - 1);
    const std::int64_t end = std::min(first + local, size);
    products[position] = head.k_post.row(position).cast<double>().dot(before.row(end) - before.row(first)) /
                         static_cast<double>(end - first);
  }
  return products;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t block = context.integer("block");
  const std::int64_t size = context.num_positions;
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const Eigen::VectorXd products = local_products(head, context);
    const QueryRows newest = query_rows(head, size - 1, size, "infllm");
    Eigen::VectorXd query = Eigen::VectorXd::Zero(head.head_dim());
    for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
      query += head.q_post.row(query_head * head.num_queries() + newest.begin).cast<double>().transpose();
    }
    std::vector<double>& of_head = result.emplace_back();
    for (std::int64_t first = 0; first < size; first += block) {
      const std::int64_t count = std::min(block, size - first);
      std::vector<std::int64_t> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), first);
      std::ranges::stable_sort(order, std::ranges::greater(), [&](std::int64_t at) { return products[at]; });
      order.resize(static_cast<std::size_t>(std::min(count, context.integer("representatives"))));
      double sum = 0;
      for (const std::int64_t position : order) sum += head.k_post.row(position).cast<double>().dot(query);
      of_head.insert(of_head.end(), static_cast<std::size_t>(count), sum / static_cast<double>(order.size()));
    }
  }
  return result;
}

}  // namespace

ScorerEntry infllm_scorer() {
  return {"infllm",
          "products of the newest query with the few positions that stand for a block",
          "arXiv 2402.04617",
          {{"block", 128, 1, 65536, true, "positions of a block"},
           {"representatives", 4, 1, 65536, true, "positions that stand for it"},
           {"local", 128, 1, 65536, true, "following queries that choose them"}},
          {.queries = ScorerNeeds::Queries::all, .digest_page = "block", .digest_parameter = "representatives"},
          &scores};
}

}  // namespace kvtide::kv
