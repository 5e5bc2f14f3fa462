#pragma once
// The machine against measured kernel times: absolute percentage errors by GPU, operation, framework and size class.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/access_pattern.h"

namespace kvtide::gpu {

/// Errors of one group of rows, in percent of the measured time. NaN where no row was predicted.
///
/// Example: measured 10, 20, 40 us, predicted 11, 19, 40: errors +10, -5, 0; ape_mean 5, ape_median 5, signed_median 0.
struct ErrorStatistics {
  std::int64_t rows = 0;     ///< predicted ones
  std::int64_t refused = 0;  ///< rows that the model cannot represent
  double ape_mean = 0;
  double ape_median = 0;
  double ape_p90 = 0;  ///< nearest rank: the smallest error that at least 90 % of the rows do not exceed
  double signed_median = 0;
  double absolute_median_us = 0;  ///< of |predicted - measured|, over rows of any sign
};

struct ErrorGroup {
  std::string gpu;
  std::string operation;  ///< of the file; "quantize difference" for its rows that are differences of two measurements
  std::string framework;
  std::string size_class;  ///< "all", "big" (bytes >= 4 x L2), or an octave of bytes: "[16, 32) MiB"
  ErrorStatistics errors;
};

/// One row of the files beside its prediction.
struct MeasuredRowResult {
  std::string gpu;
  std::string operation;
  std::string framework;
  std::string part;     ///< of the operation: "all_reduce" of comm; else empty
  bool is_big = false;  ///< bytes >= 4 x L2
  double bytes = 0;
  double measured_us = 0;
  double predicted_us = 0;  ///< NaN where the model refuses the row
};

struct MeasuredReport {
  std::vector<ErrorGroup> groups;       ///< classes all and big
  std::vector<ErrorGroup> octaves;      ///< the same rows by octave of bytes
  ErrorStatistics overall;              ///< without differences
  std::vector<MeasuredRowResult> rows;  ///< every row of every file, in order
};

/// Files that the arguments name, in order; those of a folder sorted by name.
/// @throws InputError  a folder without CSV files
[[nodiscard]] std::vector<std::string> measured_files(const std::vector<std::string>& paths);

/// @param signed_errors  (predicted / measured - 1) x 100 of every predicted row
[[nodiscard]] ErrorStatistics error_statistics(std::vector<double> signed_errors, std::int64_t refused);

/// @param paths      files <gpu>_<operation>.csv, or folders of them
/// @param rows_path  every input row with its prediction is written here; empty: nowhere
/// @param left_out_gpu  a GPU that is predicted without its own rows (leave_out.h); "each": every GPU in turn. Files of
///                      compressed_decode then do not count, and of a named GPU only its own do. Empty: none
/// @throws InputError        no files, a GPU without a profile, damaged tables
/// @throws EnvironmentError  rows_path cannot be written
[[nodiscard]] MeasuredReport validate_measured(const std::vector<std::string>& paths, Fidelity fidelity,
                                               const std::string& rows_path = "", const std::string& left_out_gpu = "");

}  // namespace kvtide::gpu
