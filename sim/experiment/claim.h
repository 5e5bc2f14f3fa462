#pragma once
// A claim about compression as an experiment: what is said, what to measure, and what it takes for it to hold.
//
// claim:
//   id: S1
//   says: two more tokens in front of the prompt change the answer
//   checks:
//     - {part: block eviction, value: {column: prefix_sensitivity_two, where: {compression.stages: blocks}}, above: 0.01}
//     - {part: a period of one block, value: {column: prefix_period}, between: [128, 128]}
//     - {part: more than token eviction, value: {...}, above: {column: ..., where: ...}, times: 2}
//
// All checks pass: the claim holds. None: it does not. Some: it holds if what the passed parts name is the case.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_value.h"
#include "experiment/experiment.h"
#include "experiment/result.h"

namespace kvtide::experiment {

/// A number out of the runs of a sweep.
struct ClaimValue {
  enum class Over : std::uint8_t { mean, min, max, deviation };
  std::optional<double> number;                            ///< a constant; else:
  std::string column;                                      ///< of columns.h
  std::vector<std::pair<std::string, std::string>> where;  ///< swept key -> label; runs that fit all of them
  Over over = Over::mean;                                  ///< how the runs that fit become one number
};

struct ClaimCheck {
  enum class Relation : std::uint8_t { above, below, between };
  std::string part;  ///< what the check stands for, in a few words
  ClaimValue value;
  Relation relation = Relation::above;
  ClaimValue right;  ///< above, below: strictly
  double times = 1;  ///< factor of the right side
  double low = 0;    ///< between: both ends included
  double high = 0;
};

struct Claim {
  std::string id;
  std::string says;
  std::vector<ClaimCheck> checks;
};

/// Reads `claim:`; errors are recorded in the document.
[[nodiscard]] Claim read_claim(const config::Value& value);

enum class Verdict : std::uint8_t { holds, holds_if, does_not_hold };

struct CheckOutcome {
  double value = 0;  ///< NaN: no run fits, or none has the column
  double right = 0;  ///< the bound, times `times`; between: the lower end
  bool passes = false;
};
struct ClaimOutcome {
  Verdict verdict = Verdict::does_not_hold;
  std::vector<CheckOutcome> checks;  ///< [check]
};

/// @param results  [run] of `experiment`; failed runs fit nothing
[[nodiscard]] ClaimOutcome judge(const Claim& claim, const Experiment& experiment,
                                 const std::vector<RunResult>& results);

/// "holds", "does not hold", "holds if: block eviction; a period of one block".
[[nodiscard]] std::string verdict_text(const Claim& claim, const ClaimOutcome& outcome);
/// "0.0312 > 0.01" with "(no)" behind what does not pass.
[[nodiscard]] std::string check_text(const ClaimCheck& check, const CheckOutcome& outcome);

}  // namespace kvtide::experiment
