#include "loss/sampling_error.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace kvtide::loss {

double sampling_error(std::span<const double> lost, std::span<const double> given, std::int64_t num_candidates) {
  KVTIDE_ASSERT(lost.size() == given.size(), "as many losses as queries");
  const auto n = static_cast<double>(lost.size());
  const auto all = static_cast<double>(num_candidates);
  if (n >= all) return 0;
  double sum_lost = 0;
  double sum_given = 0;
  for (std::size_t query = 0; query < lost.size(); ++query) {
    sum_lost += lost[query];
    sum_given += given[query];
  }
  if (n < 2 || !(sum_given > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double ratio = sum_lost / sum_given;
  double squares = 0;
  for (std::size_t query = 0; query < lost.size(); ++query) {
    const double residual = lost[query] - ratio * given[query];
    squares += residual * residual;
  }
  return std::sqrt((1 - n / all) / (n * (n - 1)) * squares) / (sum_given / n);
}

std::vector<double> attention_given(const AttentionReference& reference, std::int64_t num_positions) {
  std::vector<double> given;
  for (const auto& layer : reference.layers()) {
    for (const HeadReference& head : layer) {
      const auto queries = static_cast<std::size_t>(head.num_queries);
      given.resize(queries, 0.0);
      const double weight = static_cast<double>(queries) / static_cast<double>(head.num_rows() * reference.num_heads());
      for (std::int64_t row = 0; row < head.num_rows(); ++row) {
        given[static_cast<std::size_t>(row) % queries] += weight * head.weights.row(row).head(num_positions).sum();
      }
    }
  }
  return given;
}

}  // namespace kvtide::loss
