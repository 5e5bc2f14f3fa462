#pragma once
// The `sweep:` mapping of an experiment file: which keys take which values.

#include <string>
#include <vector>

#include "config/yaml_value.h"
#include "experiment/experiment.h"

namespace kvtide::experiment {

struct SweepAxis {
  Axis axis;
  std::vector<config::Value> values;  ///< [value] the node to put at the dotted key
};

/// Axes in file order, without those that `overrides` pins. Errors are recorded in the document: empty or repeated
/// values, keys that cannot be swept, one key inside another, too many runs.
[[nodiscard]] std::vector<SweepAxis> read_sweep(const config::Value& sweep, const Overrides& overrides);

/// Product of the axes' lengths, saturating at 2^64 - 1; 1 without axes.
[[nodiscard]] std::uint64_t num_runs(const std::vector<SweepAxis>& axes);

}  // namespace kvtide::experiment
