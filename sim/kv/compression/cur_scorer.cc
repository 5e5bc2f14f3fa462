#include "kv/compression/cur_scorer.h"

#include <algorithm>

#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

/// Squared lengths, each divided by the sum over its own `window` (0: not divided).
std::vector<double> local_shares(const RowMatrix& rows, std::int64_t size, std::int64_t window) {
  const std::vector<float> squares = squared_lengths(rows, size);
  std::vector<double> shares(squares.begin(), squares.end());
  for (std::int64_t first = 0; window > 0 && first < size; first += window) {
    const std::int64_t end = std::min(first + window, size);
    double sum = 0;
    for (std::int64_t row = first; row < end; ++row) sum += shares[static_cast<std::size_t>(row)];
    for (std::int64_t row = first; row < end && sum > 0; ++row) shares[static_cast<std::size_t>(row)] /= sum;
  }
  return shares;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t window = context.integer("window");
  const std::int64_t kind = context.integer("leverage");
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const std::vector<double> of_keys = local_shares(head.k_post, context.num_positions, window);
    const std::vector<double> of_values = local_shares(head.v, context.num_positions, window);
    std::vector<double>& of_head = result.emplace_back(of_keys.size());
    double sum = 0;
    for (std::size_t position = 0; position < of_head.size(); ++position) {
      const double k = of_keys[position];
      const double v = of_values[position];
      of_head[position] = kind == 0 ? k * v : kind == 1 ? k : kind == 2 ? v : (k + v) / 2;
      sum += of_head[position];
    }
    for (double& value : of_head) value /= sum > 0 ? sum : 1;
    const auto sinks = std::min<std::size_t>(static_cast<std::size_t>(context.integer("sinks")), of_head.size());
    std::fill_n(of_head.begin(), sinks, 1.0);
  }
  return result;
}

}  // namespace

ScorerEntry cur_scorer() {
  return {"cur",
          "squared lengths of key and value, each as a share of its local window, multiplied",
          "arXiv 2509.15038",
          {{"sinks", 4, 0, 1 << 20, true, "first positions that score 1"},
           {"window", 16, 0, 1 << 20, true, "positions of a local window; 0: the whole context"},
           {"leverage", 0, 0, 3, true, "0 product, 1 key, 2 value, 3 mean of both"}},
          {.values = true, .flops_per_key_element = 4},
          &scores};
}

}  // namespace kvtide::kv
