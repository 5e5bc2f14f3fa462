#include "loss/value_sums.h"

#include "base/vector_width.h"

namespace kvtide::loss {
namespace {

KVTIDE_EVERY_VECTOR_WIDTH
void add_row(const double* weights, const float* values, std::int64_t num_positions, std::int64_t num_channels,
             double sign, double* sums) {
  for (std::int64_t j = 0; j < num_positions; ++j) {
    const double weight = sign * weights[j];
    const float* value = values + j * num_channels;
    for (std::int64_t channel = 0; channel < num_channels; ++channel) {
      sums[channel] += weight * static_cast<double>(value[channel]);
    }
  }
}

}  // namespace

void add_value_sums(const DoubleMatrix& weights, const kv::RowMatrix& values, std::int64_t begin, std::int64_t end,
                    double sign, DoubleMatrix& sums) {
  if (begin >= end) return;
  for (std::int64_t row = 0; row < sums.rows(); ++row) {
    add_row(weights.row(row).data() + begin, values.row(begin).data(), end - begin, values.cols(), sign,
            sums.row(row).data());
  }
}

}  // namespace kvtide::loss
