#include "kv/compression/cur_scorer.h"

#include <algorithm>
#include <span>

#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

/// 1 over the sum of a window's squared lengths; 1 where the sum is zero.
double inverse_sum(std::span<const float> squares) {
  double sum = 0;
  for (const float square : squares) sum += static_cast<double>(square);
  return sum > 0 ? 1 / sum : 1;
}

std::vector<double> scores_of(const HeadTensors& head, std::size_t size, std::int64_t window, std::int64_t kind) {
  const std::vector<float> of_keys = squared_lengths(head.k_post, static_cast<std::int64_t>(size));
  const std::vector<float> of_values = squared_lengths(head.v, static_cast<std::int64_t>(size));
  std::vector<double> result(size);
  const std::size_t at_once = window > 0 ? static_cast<std::size_t>(window) : size;
  for (std::size_t first = 0; first < size; first += at_once) {
    const std::size_t count = std::min(at_once, size - first);
    const std::span keys = std::span(of_keys).subspan(first, count);
    const std::span values = std::span(of_values).subspan(first, count);
    const double k_share = window > 0 ? inverse_sum(keys) : 1;
    const double v_share = window > 0 ? inverse_sum(values) : 1;
    for (std::size_t row = 0; row < count; ++row) {
      const double k = k_share * static_cast<double>(keys[row]);
      const double v = v_share * static_cast<double>(values[row]);
      result[first + row] = kind == 0 ? k * v : kind == 1 ? k : kind == 2 ? v : k + v;  // shares in the end
    }
  }
  auto all = Eigen::Map<Eigen::VectorXd>(result.data(), static_cast<std::int64_t>(size));
  const double sum = all.sum();
  if (sum > 0) all *= 1 / sum;
  return result;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const auto size = static_cast<std::size_t>(context.num_positions);
  LayerScores result;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head =
        result.emplace_back(scores_of(head, size, context.integer("window"), context.integer("leverage")));
    std::fill_n(of_head.begin(), std::min(static_cast<std::size_t>(context.integer("sinks")), size), 1.0);
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
