#include "kv/compression/page_bound_scorer.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/attention_columns.h"

namespace kvtide::kv {
namespace {

double box_bound(const Eigen::RowVectorXf& smallest, const Eigen::RowVectorXf& largest,
                 const Eigen::RowVectorXf& query) {
  const Eigen::RowVectorXf bound = query.cwiseProduct(largest).cwiseMax(query.cwiseProduct(smallest));
  return static_cast<double>(bound.sum());
}

double sphere_bound(const Eigen::RowVectorXf& smallest, const Eigen::RowVectorXf& largest,
                    const Eigen::RowVectorXf& query) {
  const Eigen::RowVectorXf centre = (smallest + largest) / 2;
  return static_cast<double>(query.dot(centre) + (largest - smallest).norm() / 2 * query.norm());
}

template <auto bound>
LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t page = context.integer("page");
  const std::int64_t last = context.num_positions - 1;
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, last, last + 1, "a page bound");
    std::vector<double>& of_head = result.emplace_back();
    for (std::int64_t first = 0; first < context.num_positions; first += page) {
      const std::int64_t count = std::min(page, context.num_positions - first);
      const auto keys = head.k_post.middleRows(first, count);
      const Eigen::RowVectorXf smallest = keys.colwise().minCoeff();
      const Eigen::RowVectorXf largest = keys.colwise().maxCoeff();
      double sum = 0;
      for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
        sum += bound(smallest, largest, head.q_post.row(query_head * head.num_queries() + rows.begin));
      }
      of_head.insert(of_head.end(), static_cast<std::size_t>(count), sum);
    }
  }
  return result;
}

}  // namespace

ScorerEntry quest_scorer() {
  return {"quest",
          "what the newest query can give a page at most, from the page's smallest and largest channels",
          "arXiv 2406.10774",
          {{"page", 16, 1, 65536, true, "positions of a page"}},
          {.queries = ScorerNeeds::Queries::last, .digest_vectors = 2, .digest_page = "page"},
          &scores<box_bound>};
}

ScorerEntry arkvale_scorer() {
  return {"arkvale",
          "what the newest query can give a page at most, from a sphere around the page's keys",
          "NeurIPS 2024 (ArkVale)",
          {{"page", 32, 1, 65536, true, "positions of a page"}},
          {.queries = ScorerNeeds::Queries::last, .digest_vectors = 1, .digest_page = "page"},
          &scores<sphere_bound>};
}

}  // namespace kvtide::kv
