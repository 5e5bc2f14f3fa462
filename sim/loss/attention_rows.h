#pragma once
// The arithmetic under the attention reference in float64 and vector registers: scores of many queries and keys, their
// exponentials, and how one position's change spreads over the outputs.

#include <cstdint>

namespace kvtide::loss {

/// products[row * num_keys + key] = q[row] . k[key]
/// @param q  [num_rows, head_dim]
/// @param k  [num_keys, head_dim]
void key_products(const double* q, std::int64_t num_rows, const float* k, std::int64_t num_keys, std::int64_t head_dim,
                  double* products);

/// Whether none of the values is infinite or not a number.
[[nodiscard]] bool all_finite(const float* values, std::int64_t count);

/// turned[position * turned_stride + row] = weights[row, position] in float32, the rows padded with zeros to whole registers;
/// each row's weights are also added to `sums`.
/// @param weights  [row, position]
/// @param sums     [position]
void turn_weights(const double* weights, std::int64_t num_rows, std::int64_t num_positions, float* turned,
                  std::int64_t turned_stride, double* sums);

/// Replaces each value x by e^x / sum, sum that of e^x over all, each e^x good to 2 units in the last place (less than 1e-307
/// of the largest: 0). Example: 0 and ln 3: 1/4 and 3/4; ln 4.
/// @param count  1 or more @return ln sum; not finite where a value is not
double softmax(double* values, std::int64_t count);

/// Replaces each value x by exp(min(x, highest)), as precisely; `highest` at most 700. A value that is not a number stays one.
void exponentials(double* values, std::int64_t count, double highest);

/// Channels rounded up to what one register holds: rows of ChangeRows are padded with zeros to it.
[[nodiscard]] constexpr std::int64_t padded_channels(std::int64_t channels) {
  return (channels + 7) / 8 * 8;
}

/// What the queries bring to every position's output loss; loss_meter.h has the names. Channels padded.
struct ChangeRows {
  std::int64_t num_rows = 0;
  std::int64_t num_channels = 0;    ///< padded
  const double* outputs = nullptr;  ///< [row, channel] ohat_i
  const double* errors = nullptr;   ///< [row, channel] o_i - ohat_i
  const double* factors = nullptr;  ///< [row] w_i / |o_i|^2
};

struct OutputShare {
  double signed_loss = 0;  ///< C
  double loss = 0;         ///< C+
};

/// One position's share of the squared output error: sums over rows of factor <delta, error> and factor |delta|^2 with
/// delta = full (value - output) - held (stored - output).
///
/// Example: full 1/2, held 0, value 3, output 1, error 1, factor 1/4: delta 1, both 1/4.
/// @param full, held    [row] a_ij and omega_ij r_ie
/// @param value, stored [channel] v_j and vhat_e, padded
[[nodiscard]] OutputShare output_share(const ChangeRows& rows, const double* full, const double* held,
                                       const double* value, const double* stored);

}  // namespace kvtide::loss
