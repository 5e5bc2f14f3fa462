#pragma once
// The arithmetic of replay_loss.h in float32 and vector registers, for many positions a call. All measured rows of a position
// lie side by side, padded with zeros to whole registers (kv::whole_lanes), and what is summed over rows or channels is folded
// for sixteen positions at once: a dozen rows fill one register, and a sum across it costs more than what is summed.
//
// Example: rows that hold 1/4 and 1/2 of a position whose logit grew by ln 2 in both: g = 1, d = -1/4 and -1/2, h = 1/2 and 1.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

using Positions = std::span<const std::int32_t>;

/// Up to so many rows (padding included) attribute_few_rows is the cheaper way where matrix tiles make the products.
inline constexpr std::int64_t kFewRows = 32;

/// Recorded rows and what is read back for them, of the positions at hand.
struct StoredRows {
  const float* recorded = nullptr;         ///< [position, channel]
  const float* entries = nullptr;          ///< [entry, channel]
  const std::int32_t* entry_of = nullptr;  ///< [position]
  std::int64_t channels = 0;
};

/// What an error tells beside itself, [position] each, space for whole registers.
struct ErrorSums {
  float* distortions = nullptr;  ///< sum over channels of (error * factor)^2
  float* squares = nullptr;      ///< of error^2; null: nobody asks for this and the next two
  float* crosses = nullptr;      ///< of recorded * error
  float* lengths = nullptr;      ///< of recorded^2
};

/// differences[index, channel] = recorded - entry of the index-th position, and the sums of these.
/// @param factors  [channel]
void take_differences(const StoredRows& rows, Positions positions, const float* factors, float* differences,
                      const ErrorSums& sums);
/// Without them.
void take_differences(const StoredRows& rows, Positions positions, float* differences);

/// Rows at the given positions, one behind the other.
void gather(const float* rows, std::int64_t channels, Positions positions, float* gathered);

/// The rows' figures of some positions; a matrix of [position, rows] has one line for each of `positions` unless said otherwise.
struct RowBlock {
  Positions positions;
  const float* weights = nullptr;  ///< [every position of the head, rows] a_ij
  float* growths = nullptr;        ///< [position, growth_stride] g_ij
  std::int64_t rows = 0;           ///< whole registers
  std::int64_t growth_stride = 0;
};

/// Exponents in `growths` become growths; d = -a g is added to `sum`.
/// @param biases  [position] added to the exponents
/// @return whether every exponent is small enough for this
[[nodiscard]] bool grow(const RowBlock& block, const float* biases, float* sum);

/// d = -a g and h = a (1 + g), [position, rows].
void split_weights(const RowBlock& block, float* gone, float* held);

/// sums[index] = sum over the rows of max(0, d + h shrink), each also added to `of_row`.
/// @param shrink  [row] @param sums  space for whole registers
void lost_of_changed(const RowBlock& block, const float* shrink, float* of_row, float* sums);
/// The same where nothing changed: d = 0, h = a.
void lost_of_untouched(const RowBlock& block, const float* shrink, float* of_row, float* sums);

/// What C and C+ need of each row, [row], and 0 behind them.
struct RowTerms {
  std::vector<float> along;    ///< f_i <ohat_i, e_i>
  std::vector<float> factor;   ///< f_i
  std::vector<float> squared;  ///< f_i |ohat_i|^2
};

/// Products of the positions' v, and of their v - vhat where those changed, with all f_i e_i and, `rows` behind, all f_i ohat_i.
struct VectorProducts {
  const float* values = nullptr;   ///< [position, stride]
  const float* changes = nullptr;  ///< [position, stride]
  std::int64_t stride = 0;
};

/// Of the positions' vectors, [position].
struct VectorSquares {
  const float* values = nullptr;   ///< |v|^2
  const float* changes = nullptr;  ///< |v - vhat|^2
  const float* crosses = nullptr;  ///< <v, v - vhat>
};

/// C and C+ of the positions at hand.
struct OutputLosses {
  std::vector<float> signed_loss;  ///< [position]
  std::vector<float> loss;         ///< [position]
};

/// @param losses  space for whole registers
void attribute_evicted(const RowBlock& block, const RowTerms& terms, const VectorProducts& products,
                       const VectorSquares& squares, OutputLosses& losses);
void attribute_changed(const RowBlock& block, const RowTerms& terms, const VectorProducts& products,
                       const VectorSquares& squares, OutputLosses& losses);

/// attribute_changed without the products, for few rows: the rows' vectors are summed for each position before they are
/// multiplied with its own, whose channels fill the lanes whatever the number of rows.
///   C  = <v, sum d f e> + <w, sum h f e> - sum d f <ohat, e>
///   C+ = |v|^2 sum f d^2 - 2 <v, sum d^2 f ohat> + sum d^2 f |ohat|^2 + 2 <v, w> sum f d h - 2 <w, sum d h f ohat>
///        + |w|^2 sum f h^2
/// @param vectors  [2 rows, channel] f_i e_i and, `rows` behind, f_i ohat_i
/// @param num_rows  that are not padding
void attribute_few_rows(const RowBlock& block, const RowTerms& terms, const StoredRows& values, const float* vectors,
                        std::int64_t num_rows, const VectorSquares& squares, OutputLosses& losses);

/// sums[index] = |vectors[index]|^2 @param sums  space for whole registers
void squared_lengths(const float* vectors, std::int64_t count, std::int64_t channels, float* sums);

}  // namespace kvtide::loss
