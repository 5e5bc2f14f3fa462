#pragma once
// A results file read back, run by run: what merge, export and resume need.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiment/result_writer.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {

/// What is wanted of a results file.
enum class Reading { summary, runs };

/// Holds hdf5::library_mutex() only inside its calls. A damaged file can crash the HDF5 library itself, so the file is
/// tried in a child process first.
class ResultsReader {
 public:
  /// @throws InputError naming the file: not there, damaged, not a results file, another schema version
  /// @param reading  runs: result() may be called; the trial then reads every run, too
  explicit ResultsReader(const std::string& path, Reading reading = Reading::runs);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const ResultsHead& head() const { return head_; }
  [[nodiscard]] const Provenance& provenance() const { return provenance_; }
  /// In the order of the file, by index.
  [[nodiscard]] const std::vector<RunRecord>& records() const { return records_; }
  /// @throws InputError when the run's group is damaged
  [[nodiscard]] RunResult result(std::size_t row) const;

  /// Names of the summary's columns: the swept keys, then those of columns(), then any others.
  [[nodiscard]] const std::vector<std::string>& column_names() const { return column_names_; }
  [[nodiscard]] bool is_text(const std::string& column) const { return texts_.contains(column); }
  /// Swept whole numbers: those beyond 2^53 are not the same as `numbers`.
  [[nodiscard]] bool is_integer(const std::string& column) const { return integers_.contains(column); }
  [[nodiscard]] const std::vector<std::int64_t>& integers(const std::string& column) const {
    return integers_.at(column);
  }
  /// [row], NaN where there is none. @param column  one of column_names(), not a text
  [[nodiscard]] const std::vector<double>& numbers(const std::string& column) const { return numbers_.at(column); }
  [[nodiscard]] const std::vector<std::string>& texts(const std::string& column) const { return texts_.at(column); }

 private:
  explicit ResultsReader(hdf5::InputFile untried);
  [[nodiscard]] static hdf5::InputFile open_tried(const std::string& path, Reading reading);
  void read();

  hdf5::InputFile file_;
  ResultsHead head_;
  Provenance provenance_;
  std::vector<RunRecord> records_;
  std::vector<std::string> column_names_;
  std::map<std::string, std::vector<double>> numbers_;
  std::map<std::string, std::vector<std::int64_t>> integers_;  // of the columns of int64; in numbers_ too
  std::map<std::string, std::vector<std::string>> texts_;
};

}  // namespace kvtide::experiment
