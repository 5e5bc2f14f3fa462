#pragma once
// The one table of summary columns: the writer takes `units` and `long_name` from it, `kvtide explain COLUMN` its
// definition.

#include <cstdint>
#include <span>
#include <string>

namespace kvtide::experiment {

enum class ColumnType : std::uint8_t { number, text };

/// Unit of the columns that are of the chosen loss.metric: in a file "bit" where that is bits_lost in every run, else "1".
inline constexpr const char* kLossUnits = "1 or bit";

struct Column {
  const char* name;
  ColumnType type;
  const char* units;       ///< "B", "us", "token", "1", kLossUnits
  const char* definition;  ///< one sentence; also the dataset's long_name
};

/// A column that compares a run with its baseline (baseline.h).
struct BaselineColumn {
  const char* name;
  const char* of;        ///< the column compared
  bool is_ratio = true;  ///< own / baseline; false: own - baseline
};
[[nodiscard]] std::span<const BaselineColumn> baseline_columns();

/// Every column but the swept keys, in the order of the file.
[[nodiscard]] std::span<const Column> columns();
/// Null when unknown.
[[nodiscard]] const Column* find_column(const std::string& name);

}  // namespace kvtide::experiment
