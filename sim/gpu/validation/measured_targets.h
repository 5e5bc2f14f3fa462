#pragma once
// What the machine is meant to reach against measured rows, beside what it reaches: medians of the absolute percentage
// error, pooled over all rows that a target speaks of.
//
// The figures of others on the same rows, decode attention: datasheet roofline 84 %, GenZ 87, aiconfigurator restricted to
// these rows 25, boosted trees 5 on the GPUs they saw and 72 on an unseen one.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/validation/measured_report.h"

namespace kvtide::gpu {

struct TargetResult {
  std::string subject;    ///< "decode attention", or the operation and GPU that was left out
  std::string statistic;  ///< "median", "p90", "big median" (bytes >= 4 x L2)
  double target = 0;      ///< percent, at most this
  double found = 0;       ///< percent
  std::int64_t rows = 0;
  std::string worst;  ///< the GPU and framework that is farthest off, with its own figure: "b60 vllm 6.5 %"

  [[nodiscard]] bool is_met() const { return found <= target; }
};

/// Targets that the rows of the report speak of, misses first, the largest excess leading; in the order of the operations
/// where they are met.
/// Example: rows with errors 5, 7, 8 % against a median of at most 6: found 7, missed by 1.
/// @param is_left_out  the rows were predicted without the rows of their own GPU: targets are then by GPU
[[nodiscard]] std::vector<TargetResult> judge_targets(const MeasuredReport& report, bool is_left_out);

}  // namespace kvtide::gpu
