#pragma once
// Softmax of many queries over the same keys, and what each key receives, with the queries side by side: a row of logits
// holds one key's products with 64 queries, so that maxima, exponentials and totals need no sum across a register.
//
// Example: two queries, keys with logits (0, ln 3) and (ln 3, 0): shares 1/4 and 3/4, 3/4 and 1/4; with weights 1 and 2 the
// first key receives 1/4 + 2 * 3/4 = 7/4, the second 3/4 + 2 * 1/4 = 5/4.

#include <array>
#include <cstdint>
#include <vector>

#include "kv/compression/dot_products.h"

namespace kvtide::kv {

class SoftmaxColumns {
 public:
  explicit SoftmaxColumns(std::int64_t num_keys);

  /// [key, kQueryLanes], for KeyProducts::multiply().
  [[nodiscard]] float* logits() { return logits_.data(); }

  /// Adds weight[lane] times the share of every key; overwrites the logits.
  /// @param seen       [lane] keys 0..seen - 1 of the query; 0: no query
  /// @param last_seen  the largest of them
  void add(const std::array<std::int64_t, kQueryLanes>& seen, const std::array<double, kQueryLanes>& weight,
           std::int64_t last_seen);

  /// sums[key] += what was added since the last call.
  void move_into(std::vector<double>& sums);

 private:
  ProductSpace logits_;
  ProductSpace partial_;  ///< [key, 16]
  std::int64_t num_keys_;
};

}  // namespace kvtide::kv
