#pragma once
// The few numbers of a matrix that lie farthest from their vector's mean, in units of its standard deviation: kept exact and
// apart by KVQuant and GEAR, so that they do not widen everybody's range.

#include <vector>

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct Outlier {
  std::int64_t row = 0;
  std::int64_t column = 0;
  float value = 0;  ///< as fp16 holds it
};

/// floor(share of a million * elements) outliers, replaced in `values` by their vector's mean.
/// @param axis  channel: vectors are columns (keys); token: rows (values)
[[nodiscard]] std::vector<Outlier> take_outliers(RowMatrix& values, GroupAxis axis, PartsPerMillion share);

void put_back(const std::vector<Outlier>& outliers, RowMatrix& values);

}  // namespace kvtide::kv
