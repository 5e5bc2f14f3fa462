#pragma once
// The `sweep:` mapping of an experiment file: which keys take which values together.
//
//   sweep:
//     compression.block_size: [64, 128]                    # an axis; axes are combined with each other
//     batch: {range: {from: 1, to: 64, count: 4, scale: log}}   # 1, 4, 16, 64
//     zip: {context_tokens: [8192, 32768], seed: [1, 2]}   # axes that move together
//     list: [{gpu: l4, model: m}, {gpu: h100-sxm, model: n}]    # the same, point by point
//     sample: {count: 50, method: latin_hypercube, axes: {compression.block_size: {from: 16, to: 512, scale: log}}}
//     when: ["compression.block_size <= context_tokens"]   # combinations that are run; numbered after the choice

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/yaml_value.h"
#include "experiment/experiment.h"
#include "experiment/sweep_condition.h"

namespace kvtide::experiment {

/// A value of an axis: a node of the file, or text made from a range or a sample.
struct SweepValue {
  std::optional<config::Value> node;
  std::string yaml;                      ///< where there is no node
  std::optional<config::Value> made_at;  ///< where the range or sample stands that made `yaml`
};

/// Whether the reader takes whole numbers at a dotted key, and nothing else.
using IsIntegerKey = std::function<bool(const std::string& key)>;

struct SweepAxis {
  Axis axis;
  std::vector<SweepValue> values;  ///< [point of its group] what to put at the dotted key
};

/// Axes that move together: point i gives each its i-th value.
struct SweepGroup {
  std::vector<SweepAxis> axes;
  std::size_t num_points = 0;
};

struct Sweep {
  std::vector<SweepGroup> groups;                               ///< combined with each other, the last one fastest
  std::vector<std::pair<Condition, config::Value>> conditions;  ///< with the place for messages

  /// Product of the groups' points, saturating at 2^64 - 1; 1 without groups. Conditions are not looked at.
  [[nodiscard]] std::uint64_t num_combinations() const;
};

/// Groups in file order; an axis that `overrides` pins is left out. Errors are recorded in the document: empty or
/// repeated values, lengths that differ, keys that cannot be swept, one key inside another, too many combinations.
[[nodiscard]] Sweep read_sweep(const config::Value& sweep, const Overrides& overrides,
                               const IsIntegerKey& is_integer_key);

/// The values of `{from, to, step}` or `{from, to, count, scale: linear|log, integer}` as text; both ends included.
/// `integer` rounds them; it is the default between whole ends of a key that takes whole numbers only. Errors are
/// recorded at the range, one of them that two values are the same.
///
/// Example: {from: 16, to: 128, count: 4, scale: log} -> 16, 32, 64, 128.
[[nodiscard]] std::vector<std::string> range_values(const config::Value& range, bool is_integer_key);

}  // namespace kvtide::experiment
