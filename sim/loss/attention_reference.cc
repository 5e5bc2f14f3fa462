#include "loss/attention_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "kv/compression/lanes.h"
#include "loss/attention_rows.h"
#include "loss/bits_lost.h"
#include "loss/value_sums.h"

namespace kvtide::loss {
namespace {

constexpr std::uint64_t kMaxWeightBytes = 2 * kGiB;

void check_shapes(const kv::HeadTensors& head) {
  const bool fits = head.num_positions() > 0 && head.head_dim() > 0 && head.v.rows() == head.k_post.rows() &&
                    head.v.cols() == head.k_post.cols() && head.q_post.cols() == head.k_post.cols() &&
                    head.group_size > 0 && head.q_post.rows() == head.group_size * head.num_queries();
  if (!fits) {
    throw InputError(
        fmt::format("attention tensors disagree: k [{}, {}], v [{}, {}], q [{}, {}] for {} query heads x {} queries",
                    head.k_post.rows(), head.k_post.cols(), head.v.rows(), head.v.cols(), head.q_post.rows(),
                    head.q_post.cols(), head.group_size, head.num_queries()));
  }
}

/// Leaves `sample` of the queries, in their order: each set of as many is equally likely.
void draw_sample(const MeasureQueries& measure, std::vector<std::int64_t>& queries) {
  if (measure.sample <= 0 || static_cast<std::size_t>(measure.sample) >= queries.size()) return;
  const auto sample = static_cast<std::size_t>(measure.sample);
  RandomStream random(measure.seed, "loss.query_sample");
  for (std::size_t i = 0; i < sample; ++i) std::swap(queries[i], queries[i + random.below(queries.size() - i)]);
  queries.resize(sample);
  std::ranges::sort(queries);
}

/// Names the first score that a query sees and that is not finite: products of finite float32 in float64 always are.
void check_scores(const HeadReference& reference) {
  if (all_finite(reference.q.data(), reference.q.size()) && all_finite(reference.k.data(), reference.k.size())) return;
  for (std::int64_t row = 0; row < reference.q.rows(); ++row) {
    const std::int64_t position = reference.row_positions[static_cast<std::size_t>(row)];
    for (std::int64_t j = 0; j <= std::min(position, reference.k.rows() - 1); ++j) {
      if (std::isfinite(reference.q.row(row).cast<double>().dot(reference.k.row(j).cast<double>()))) continue;
      throw InputError(
          fmt::format("the attention score of query position {} and key position {} is not finite", position, j));
    }
  }
}

/// Rows whose weights are still at hand when their outputs are summed: 1 MiB of 2,048 positions. Whole registers.
constexpr std::int64_t kRowsAtOnce = 64;

/// Weights and outputs of some rows. @param scaled  [row, channel] queries
void weigh_rows(const DoubleMatrix& scaled, std::int64_t first, std::int64_t count, HeadReference& reference) {
  const std::int64_t positions = reference.k.rows();
  double* const of_rows = reference.weights.row(first).data();
  key_products(scaled.row(first).data(), count, reference.k.data(), positions, scaled.cols(), of_rows);
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::int64_t seen = std::min(positions, reference.row_positions[static_cast<std::size_t>(row)] + 1);
    reference.log_sum_exp(row) = softmax(reference.weights.row(row).data(), seen);
    reference.weights.row(row).tail(positions - seen).setZero();
  }
  add_value_sums(reference.weights.middleRows(first, count), reference.v, 0, positions, 1.0,
                 reference.outputs.middleRows(first, count));
  turn_weights(of_rows, count, positions, reference.weights_by_position.data() + first,
               reference.weights_by_position.cols(), reference.attention.data());
}

}  // namespace

HeadReference make_head_reference(const kv::HeadTensors& head, MeasureQueries measure) {
  check_shapes(head);
  std::vector<std::int64_t> queries;
  for (std::int64_t i = 0; i < head.num_queries(); ++i) {
    const std::int64_t position = head.q_positions[static_cast<std::size_t>(i)];
    if (position >= measure.first && position <= measure.last && position >= 0) queries.push_back(i);
  }
  if (queries.empty()) {
    const auto [low, high] = std::minmax_element(head.q_positions.begin(), head.q_positions.end());
    const std::string recorded =
        head.q_positions.empty() ? "none are recorded" : fmt::format("recorded are {}..{}", *low, *high);
    throw InputError(fmt::format("no recorded query lies in the measured positions {}..{}; {}", measure.first,
                                 measure.last, recorded));
  }
  const auto num_candidates = static_cast<std::int64_t>(queries.size());
  draw_sample(measure, queries);
  const auto num_queries = static_cast<std::int64_t>(queries.size());
  const std::int64_t rows = num_queries * head.group_size;
  const std::int64_t positions = head.num_positions();
  const std::uint64_t bytes = checked_product(static_cast<std::uint64_t>(rows) * sizeof(double),
                                              static_cast<std::uint64_t>(positions), "attention weights of one head");
  if (bytes > kMaxWeightBytes) {
    throw InputError(fmt::format(
        "{} measured query rows x {} positions need {} of attention weights a head; "
        "at most {}: measure fewer queries",
        rows, positions, format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(kMaxWeightBytes))));
  }

  HeadReference reference;
  reference.num_queries = num_queries;
  reference.num_candidates = num_candidates;
  reference.scale = head.attention_scale;
  reference.k = head.k_post;
  reference.v = head.v;
  reference.k_distortion_factors = distortion_factors(reference.k);
  reference.v_distortion_factors = distortion_factors(reference.v);
  reference.q.resize(rows, head.head_dim());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t query = queries[static_cast<std::size_t>(row % num_queries)];
    reference.q.row(row) = head.q_post.row(row / num_queries * head.num_queries() + query);
    reference.row_positions.push_back(head.q_positions[static_cast<std::size_t>(query)]);
  }
  check_scores(reference);
  reference.weights.resize(rows, positions);
  const DoubleMatrix scaled = reference.q.cast<double>() * reference.scale;
  reference.log_sum_exp.resize(rows);
  reference.outputs = DoubleMatrix::Zero(rows, head.head_dim());
  reference.weights_by_position.resize(positions, kv::whole_lanes(rows));
  reference.attention.resize(static_cast<std::size_t>(positions));
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    weigh_rows(scaled, first, std::min(kRowsAtOnce, rows - first), reference);
  }
  if (!reference.outputs.allFinite()) throw InputError("a value of the trace is not finite");
  for (double& attention : reference.attention) attention /= static_cast<double>(rows);
  return reference;
}

void AttentionReference::add_layer(const kv::LayerTensors& layer) {
  if (layer.empty()) throw InputError("a layer of the trace has no KV head");
  std::vector<HeadReference> heads;
  for (const kv::HeadTensors& head : layer) {
    const std::int64_t expected = layers_.empty() ? layer.front().num_positions() : num_positions();
    if (head.num_positions() != expected) {
      throw InputError(fmt::format("KV heads of one trace must hold the same positions: found {} beside {}",
                                   head.num_positions(), expected));
    }
    heads.push_back(make_head_reference(head, measure_));
  }
  layers_.push_back(std::move(heads));
}

std::int64_t AttentionReference::num_heads() const {
  std::int64_t count = 0;
  for (const auto& layer : layers_) count += static_cast<std::int64_t>(layer.size());
  return count;
}

std::int64_t AttentionReference::num_positions() const {
  return layers_.empty() ? 0 : layers_.front().front().num_positions();
}

}  // namespace kvtide::loss
