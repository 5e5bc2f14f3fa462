// KVQuant (arXiv 2401.18079): keys before RoPE, each channel scaled by its own range, values by each token's; codes are the
// nearest of 2^b uneven levels that one k-means found for all of them; 1 % of the numbers, those far from their vector's
// mean, are kept apart as fp16 with a 16-bit place.
// Key scales and levels are made offline, a constant of the model, and not charged; here they come from the very rows that
// are stored, which flatters the method. The published levels weigh errors by Fisher information, of which a trace knows
// nothing: these weigh all alike.
// Bytes: b bits, 4 B for each 1 % outlier (0.32 bits an element), values 4 B a row for scale and zero point.

#include "kv/compression/codec.h"
#include "kv/compression/level_table.h"
#include "kv/compression/outliers.h"

namespace kvtide::kv {
namespace {

constexpr PartsPerMillion kOutlierShare = 10'000;
constexpr std::int64_t kOutlierBytes = 4;
constexpr std::int64_t kScaleAndZeroBytes = 4;

void code(const CodecUse& use, const CodecRows& rows) {
  RowMatrix& values = *rows.values;
  const std::vector<Outlier> outliers =
      take_outliers(values, use.is_key ? GroupAxis::channel : GroupAxis::token, kOutlierShare);
  // Columns are vectors from here on: channels of keys, tokens of values.
  Eigen::MatrixXf vectors;
  if (use.is_key) {
    vectors = values;
  } else {
    vectors = values.transpose();
  }
  const Eigen::RowVectorXf low = vectors.colwise().minCoeff();
  const Eigen::RowVectorXf range = (vectors.colwise().maxCoeff() - low).cwiseMax(1e-20F);
  vectors = ((vectors.rowwise() - low).array().rowwise() / range.array()).matrix();
  std::vector<float> sorted(vectors.data(), vectors.data() + vectors.size());
  sort_numbers(sorted);
  const std::vector<float> levels = fitted_levels(sorted, 1 << use.codec->bits);
  take_nearest_levels(levels, vectors.data(), vectors.size());
  vectors = ((vectors.array().rowwise() * range.array()).matrix().rowwise() + low).eval();
  if (use.is_key) {
    values = vectors;
  } else {
    values = vectors.transpose();
  }
  put_back(outliers, values);
}

Codec kvquant(std::string_view name, std::int32_t bits) {
  return {.name = name,
          .summary = "keys before RoPE by channel, values by token, uneven levels, 1 % outliers in fp16",
          .paper = "arXiv 2401.18079",
          .bits = bits,
          .read_cost = 1.5,  // table look-up, sparse part
          .write_operations = 30,
          .k_rope = RopeState::pre,
          .divisor = 8,
          .row_bytes =
              [](const CodecUse& use) {
                return static_cast<Bytes>(use.columns * use.codec->bits / 8 + (use.is_key ? 0 : kScaleAndZeroBytes));
              },
          .block_metadata =
              [](const CodecUse& use, std::int64_t num_rows) {
                return static_cast<Bytes>(ceil_div(num_rows * use.columns, 100) * kOutlierBytes);
              },
          .code = &code};
}

}  // namespace

std::vector<Codec> kvquant_codecs() {
  return {kvquant("kvquant4", 4), kvquant("kvquant3", 3), kvquant("kvquant2", 2)};
}

}  // namespace kvtide::kv
