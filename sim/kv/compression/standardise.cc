#include "kv/compression/standardise.h"

#include <algorithm>
#include <cmath>

namespace kvtide::kv {

void standardise(LayerScores& scores) {
  double sum = 0;
  double count = 0;
  for (const auto& of_head : scores) {
    for (const double score : of_head) sum += score;
    count += static_cast<double>(of_head.size());
  }
  const double mean = sum / std::max(count, 1.0);
  double squares = 0;
  for (const auto& of_head : scores) {
    for (const double score : of_head) squares += (score - mean) * (score - mean);
  }
  const double deviation = count > 1 ? std::max(std::sqrt(squares / (count - 1)), 1e-6) : 1.0;
  for (auto& of_head : scores) {
    for (double& score : of_head) score = (score - mean) / deviation;
  }
}

}  // namespace kvtide::kv
