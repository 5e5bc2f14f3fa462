// SKVQ (arXiv 2405.06219): channels of like range are put side by side, groups of 128 of them share a scale and a zero point
// in E4M3, and the range is clipped to the share that makes the least error (one share a head, found on the rows that are
// stored). Keys are stored before RoPE at 2 bits, values at 2 bits or at three levels.
// Three levels need log2 3 = 1.585 bits: five lie in a byte, 1.6 bits an element.
// Example, head_dim 128: keys 32 + 2 B a row (2.125 bits), values at three levels 26 + 2 B (1.75 bits).

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kv/compression/codec.h"
#include "kv/compression/group_codes.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kGroup = 128;
constexpr std::int64_t kScaleBytes = 2;  // scale and zero point, E4M3 each
constexpr std::array<float, 6> kClips{1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.7F};

std::int64_t num_levels(const Codec& codec) {
  return codec.name == "skvq1.5" ? 3 : 4;
}

RowMatrix coded(const RowMatrix& values, float clip, float top) {
  RowMatrix result = values;
  const std::int64_t columns = values.cols();
  if (columns <= kGroup) {
    code_clipped_groups(result.data(), columns, values.rows(), clip, top);
    return result;
  }
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    const std::int64_t whole = columns / kGroup;
    code_clipped_groups(result.row(row).data(), kGroup, whole, clip, top);
    const std::int64_t rest = columns - whole * kGroup;
    if (rest > 0) code_clipped_groups(result.row(row).data() + whole * kGroup, rest, 1, clip, top);
  }
  return result;
}

using Errors = std::array<double, kClips.size()>;

/// Adds each candidate's squared errors in the order of the values: side by side, since a sum waits for its former one.
void add_errors(const RowMatrix& exact, const std::array<RowMatrix, kClips.size()>& candidates, Errors& errors) {
  std::array<const float*, kClips.size()> coded{};
  for (std::size_t clip = 0; clip < kClips.size(); ++clip) coded[clip] = candidates[clip].data();
  Errors sums = errors;
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    for (std::size_t clip = 0; clip < kClips.size(); ++clip) {
      const auto error = static_cast<double>(coded[clip][i] - exact.data()[i]);
      sums[clip] += error * error;
    }
  }
  errors = sums;
}

/// The share of the range that makes the least error, the first of equal ones.
float best_clip(const RowMatrix& values, float top) {
  constexpr std::int64_t kRowsAtOnce = 32;  // of all candidates, at hand together
  std::array<RowMatrix, kClips.size()> candidates;
  Errors errors{};
  for (std::int64_t first = 0; first < values.rows(); first += kRowsAtOnce) {
    const RowMatrix some = values.middleRows(first, std::min(kRowsAtOnce, values.rows() - first));
    for (std::size_t clip = 0; clip < kClips.size(); ++clip) candidates[clip] = coded(some, kClips[clip], top);
    add_errors(some, candidates, errors);
  }
  return kClips[static_cast<std::size_t>(std::ranges::min_element(errors) - errors.begin())];
}

void code(const CodecUse& use, const CodecRows& rows) {
  RowMatrix& values = *rows.values;
  const auto top = static_cast<float>(num_levels(*use.codec) - 1);
  const Eigen::RowVectorXf range = values.colwise().maxCoeff() - values.colwise().minCoeff();
  std::vector<std::int64_t> order(static_cast<std::size_t>(values.cols()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) { return range[left] < range[right]; });
  RowMatrix reordered(values.rows(), values.cols());
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    float* to = reordered.row(row).data();
    for (const std::int64_t column : order) *to++ = values(row, column);
  }
  const RowMatrix best = coded(reordered, best_clip(reordered, top), top);
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    const float* from = best.row(row).data();
    for (const std::int64_t column : order) values(row, column) = *from++;
  }
}

Bytes row_bytes(const CodecUse& use) {
  const std::int64_t payload = num_levels(*use.codec) == 3 ? ceil_div(use.columns, 5) : ceil_div(use.columns, 4);
  return static_cast<Bytes>(payload + ceil_div(use.columns, kGroup) * kScaleBytes);
}

Codec skvq(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .paper = "arXiv 2405.06219",
          .bits = 2,
          .write_operations = 8,
          .k_rope = RopeState::pre,
          .row_bytes = &row_bytes,
          .code = &code};
}

}  // namespace

std::vector<Codec> skvq_codecs() {
  return {skvq("skvq2", "reordered channels, clipped 2-bit groups of 128, E4M3 scale and zero point"),
          skvq("skvq1.5", "reordered channels, clipped three-level groups of 128, E4M3 scale and zero point")};
}

}  // namespace kvtide::kv
