#pragma once
// `sample:` of a sweep: points drawn at random instead of a grid.

#include "config/yaml_value.h"
#include "experiment/sweep.h"

namespace kvtide::experiment {

/// {count, method: random|latin_hypercube, seed, axes: {key: {from, to, scale, integer} or [values]}}.
/// Latin hypercube (McKay et al. 1979): each axis is cut into `count` equal strata and each stratum is drawn from once.
/// Labels and types of the axes are left to the caller. Errors are recorded in the document.
[[nodiscard]] SweepGroup read_sample(const config::Value& sample, const IsIntegerKey& is_integer_key);

}  // namespace kvtide::experiment
