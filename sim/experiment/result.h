#pragma once
// What one run found: scalars for the summary and named arrays, each with dimensions, unit and description.
// Room-neutral: the rooms that measure know nothing of files, the writer knows nothing of what was measured.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvtide::experiment {

enum class RunStatus : std::uint8_t { ok, failed };

[[nodiscard]] std::string to_string(RunStatus status);

/// Coordinate values of one dimension of a run. The path is relative to the run's group: "loss/position" is the
/// dimension `position` of the group `loss`.
struct ResultDimension {
  std::string path;
  std::variant<std::vector<std::int64_t>, std::vector<double>> values;
  std::string long_name;
  std::string units = "1";
  [[nodiscard]] std::size_t size() const;
};

/// One array of a run. Its size is the product of its dimensions' sizes, slowest first.
struct ResultArray {
  std::string path;  ///< "loss/mass_loss", relative to the run's group
  std::variant<std::vector<double>, std::vector<float>, std::vector<std::int64_t>, std::vector<std::uint8_t>> values;
  std::vector<std::string> dimensions;  ///< paths of ResultDimension, in the array's group or an ancestor of it
  std::string long_name;
  std::string units = "1";
  [[nodiscard]] std::size_t size() const;
};

struct RunResult {
  RunStatus status = RunStatus::ok;
  std::string status_reason;  ///< failed: why, one line
  std::vector<std::string> warnings;
  std::string loss_model;        ///< model whose recorded attention the loss was measured on
  std::int64_t loss_tokens = 0;  ///< tokens of that trace
  /// Column of `columns.h` -> value. Absent: NaN, or "" for a text column.
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::vector<ResultDimension> dimensions;
  std::vector<ResultArray> arrays;

  /// A row for a run that could not be evaluated; the sweep goes on.
  [[nodiscard]] static RunResult failure(std::string reason);
};

/// What is wrong with a result's shapes and names, one sentence each: unknown column, array without its dimension, size
/// that is not the product, a dimension outside the array's group and its ancestors. Empty when it can be written.
[[nodiscard]] std::vector<std::string> defects(const RunResult& result);

}  // namespace kvtide::experiment
