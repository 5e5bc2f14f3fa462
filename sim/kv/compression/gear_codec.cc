// GEAR (arXiv 2403.05527): 2 % of the numbers, the farthest from their vector's mean, are kept exact; the rest becomes
// integers in groups; a matrix of rank 4 corrects what the integers got wrong, over the whole head.
// Bytes: the integers' (scale and zero point of each group), 6 B an outlier (fp16 value, 32-bit place; 2 % -> 0.96 bits an
// element), 4 fp16 coefficients a row, 4 fp16 basis rows a head.

#include <Eigen/Eigenvalues>

#include "kv/compression/codec.h"
#include "kv/compression/integer_codec.h"
#include "kv/compression/outliers.h"
#include "kv/compression/working_layer.h"

namespace kvtide::kv {
namespace {

constexpr PartsPerMillion kOutlierShare = 20'000;
constexpr std::int64_t kOutlierBytes = 6;
constexpr std::int64_t kRank = 4;
constexpr std::int64_t kHalfBytes = 2;

GroupAxis axis_of(const CodecUse& use) {
  return use.is_key ? use.stage->k_axis : use.stage->v_axis;
}
IntegerGroups groups_of(const CodecUse& use) {
  return {use.codec->bits, use.stage->group, use.stage->is_symmetric};
}

/// Best approximation of the given rank, factors in fp16.
RowMatrix low_rank_part(const RowMatrix& rows) {
  const Eigen::MatrixXd gram = rows.transpose().cast<double>() * rows.cast<double>();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(gram);
  const std::int64_t rank = std::min(kRank, rows.cols());
  RowMatrix basis = eigen.eigenvectors().rightCols(rank).transpose().cast<float>();
  RowMatrix coefficients = rows * basis.transpose();
  round_to_half(basis);
  round_to_half(coefficients);
  return coefficients * basis;
}

void code(const CodecUse& use, const CodecRows& rows) {
  RowMatrix& values = *rows.values;
  const std::vector<Outlier> outliers = take_outliers(values, axis_of(use), kOutlierShare);
  const RowMatrix exact = values;
  std::int64_t first = 0;
  for (const std::int64_t num_rows : rows.block_rows) {
    quantize_rows(values, first, num_rows, groups_of(use), axis_of(use));
    first += num_rows;
  }
  values += low_rank_part(exact - values);
  put_back(outliers, values);
}

Codec gear(std::string_view name, std::int32_t bits) {
  return {.name = name,
          .summary = "integers in groups, a rank-4 correction of the head, 2 % outliers in fp16",
          .paper = "arXiv 2403.05527",
          .bits = bits,
          .read_cost = 3,  // the integer, four multiply-adds
          .write_operations = 60,
          .takes_groups = true,
          .row_bytes =
              [](const CodecUse& use) {
                return static_cast<Bytes>(ceil_div(use.columns * use.codec->bits, 8) + kRank * kHalfBytes);
              },
          .block_metadata =
              [](const CodecUse& use, std::int64_t num_rows) {
                return group_metadata_bytes(num_rows, use.columns, groups_of(use), axis_of(use)) +
                       static_cast<Bytes>(ceil_div(num_rows * use.columns, 50) * kOutlierBytes);
              },
          .head_metadata = [](const CodecUse& use) { return static_cast<Bytes>(kRank * use.columns * kHalfBytes); },
          .code = &code};
}

}  // namespace

std::vector<Codec> gear_codecs() {
  return {gear("gear4", 4), gear("gear2", 2)};
}

}  // namespace kvtide::kv
