// ZipCache (arXiv 2405.14256): tokens that attention finds salient at 4 bits, the others at 2. Salient are the 60 % with the
// largest attention per query that could see them, over the newest 64 queries. Channels are divided by the square root of
// their largest magnitude, then each token has its own scale and zero point.
// Bytes: every row 2 bits a channel and 4 B, salient rows 2 bits a channel more; one fp16 norm a channel and head.
// Example, head_dim 128: 32 + 4 + 0.6 * 32 = 55.2 B a row, 3.2 bits and 0.25 for the scales.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kv/attention_weights.h"
#include "kv/compression/codec.h"
#include "kv/compression/integer_codec.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kProbes = 64;
constexpr std::int64_t kScaleAndZeroBytes = 4;
constexpr PartsPerMillion kSalientShare = 600'000;

std::int64_t num_salient(std::int64_t num_rows) {
  return ceil_div(num_rows * kSalientShare, 1'000'000);
}

/// Attention per query that sees the position, [row].
std::vector<double> saliency(const CodecRows& rows) {
  const HeadTensors& head = *rows.tensors;
  const std::int64_t limit = rows.positions.back() + 1;
  std::vector<std::int64_t> chosen;
  for (std::int64_t query = head.num_queries(); query-- > 0 && std::ssize(chosen) < kProbes;) {
    if (head.q_positions[static_cast<std::size_t>(query)] < limit) chosen.push_back(query);
  }
  if (chosen.empty())
    throw InputError("zipcache4_2 needs queries at positions that are compressed; the trace has none");
  RowMatrix queries(static_cast<std::int64_t>(chosen.size()) * head.group_size, head.head_dim());
  std::vector<std::int64_t> positions;
  positions.reserve(chosen.size());
  for (const std::int64_t query : chosen) positions.push_back(head.q_positions[static_cast<std::size_t>(query)]);
  for (std::int64_t group = 0; group < head.group_size; ++group) {
    for (std::size_t index = 0; index < chosen.size(); ++index) {
      queries.row(group * std::ssize(chosen) + static_cast<std::int64_t>(index)) =
          head.q_post.row(group * head.num_queries() + chosen[index]);
    }
  }
  const RowMatrix weights = attention_weights(queries, positions, head.k_post, limit, head.attention_scale);
  Eigen::RowVectorXd sums = Eigen::RowVectorXd::Zero(limit);
  for (std::int64_t row = 0; row < weights.rows(); ++row) sums += weights.row(row).cast<double>();
  // Queries descend, from the newest on.
  const auto num_seeing = [&](std::int64_t position) {
    return std::ranges::upper_bound(positions, position, std::ranges::greater()) - positions.begin();
  };
  std::vector<double> salient;
  for (const std::int64_t position : rows.positions) {
    const auto seeing = num_seeing(position);
    salient.push_back(seeing > 0 ? sums[position] / static_cast<double>(seeing) : sums[position]);
  }
  return salient;
}

void code(const CodecUse&, const CodecRows& rows) {
  RowMatrix& values = *rows.values;
  const std::vector<double> scores = saliency(rows);
  Eigen::RowVectorXf norm = values.cwiseAbs().colwise().maxCoeff().cwiseSqrt();
  norm = norm.unaryExpr([](float x) {
    const auto stored = static_cast<float>(static_cast<Eigen::half>(x));
    return stored > 0 ? stored : 1.0F;
  });
  values = (values.array().rowwise() / norm.array()).matrix();
  std::int64_t first = 0;
  for (const std::int64_t num_rows : rows.block_rows) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(num_rows));
    std::iota(order.begin(), order.end(), first);
    std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) {
      return scores[static_cast<std::size_t>(left)] > scores[static_cast<std::size_t>(right)];
    });
    for (std::int64_t rank = 0; rank < num_rows; ++rank) {
      const std::int32_t bits = rank < num_salient(num_rows) ? 4 : 2;
      quantize_rows(values, order[static_cast<std::size_t>(rank)], 1, {bits, values.cols(), false}, GroupAxis::token);
    }
    first += num_rows;
  }
  values = (values.array().rowwise() * norm.array()).matrix();
}

}  // namespace

std::vector<Codec> zipcache_codecs() {
  return {{.name = "zipcache4_2",
           .summary = "salient 60 % of a block's tokens at 4 bits, the others at 2; channel norms",
           .paper = "arXiv 2405.14256",
           .bits = 4,
           .read_cost = 1.5,  // the channel's norm besides
           .write_operations = 12,
           .divisor = 4,
           .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns / 4 + kScaleAndZeroBytes); },
           .block_metadata =
               [](const CodecUse& use, std::int64_t num_rows) {
                 return static_cast<Bytes>(num_salient(num_rows) * use.columns / 4);
               },
           .head_metadata = [](const CodecUse& use) { return static_cast<Bytes>(use.columns * 2); },
           .code = &code}};
}

}  // namespace kvtide::kv
