#pragma once
// `baseline: {compression.stages: none}`: the run that others are compared with.
//
// The mapping names values (or labels) of swept keys. A run's baseline is the run with these values and the run's own
// values of all other keys; without `baseline` no run has one.
//
// Example: sweep {block_size: [64, 128], stages: [none, half]}, baseline {stages: none}
//   run 0 (64, none) -> 0   1 (64, half) -> 0   2 (128, none) -> 2   3 (128, half) -> 2

#include <cstdint>
#include <vector>

#include "config/yaml_value.h"
#include "experiment/experiment.h"

namespace kvtide::experiment {

/// Sets Run::baseline of every run. Errors are recorded in the document: a key that is not swept, a value that its axis
/// does not have, a run whose baseline `when` has left out.
void find_baselines(const config::Value& baseline, const std::vector<Axis>& axes, std::vector<Run>& runs);

}  // namespace kvtide::experiment
