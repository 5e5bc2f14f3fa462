#include "kv/attention_weights.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {

RowMatrix attention_weights(const Eigen::Ref<const RowMatrix>& q, const std::vector<std::int64_t>& positions,
                            const Eigen::Ref<const RowMatrix>& k, std::int64_t num_keys, float scale) {
  RowMatrix weights = (q * k.topRows(num_keys).transpose()) * scale;
  const auto num_queries = static_cast<std::int64_t>(positions.size());
  for (std::int64_t row = 0; row < weights.rows(); ++row) {
    const std::int64_t seen = std::min(num_keys, positions[static_cast<std::size_t>(row % num_queries)] + 1);
    auto visible = weights.row(row).head(seen).array();
    visible = (visible - visible.maxCoeff()).exp();
    visible *= static_cast<float>(1.0 / visible.cast<double>().sum());
    weights.row(row).tail(num_keys - seen).setZero();
  }
  return weights;
}

}  // namespace kvtide::kv
