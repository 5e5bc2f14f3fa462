#pragma once
// The final file: /summary/<column> over `run`, and each run's arrays under /runs/<index>/. The runs are asked for one
// at a time, so that memory does not grow with the arrays of a long sweep beyond the file itself.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/result.h"

namespace kvtide::experiment {

/// Layout of the results; raised when a column or group changes its meaning.
inline constexpr std::int64_t kSchemaVersion = 1;

struct Provenance {
  std::string kvtide_version;
  std::string source_commit;
  std::string created;  ///< see creation_time()
  /// Results of another build may differ. "0.1.0 4fbe4c6"
  [[nodiscard]] std::string build() const { return kvtide_version + " " + source_commit; }
};

/// SOURCE_DATE_EPOCH when set, else now, as "2001-09-09T01:46:40Z". @throws InputError when the variable is not a count
/// of seconds
[[nodiscard]] std::string creation_time();

/// What the root of the file says: of the whole experiment, in every shard of it.
struct ResultsHead {
  std::string title;
  std::string experiment_yaml;                         ///< verbatim
  std::string included_yaml;                           ///< see include.h
  std::string experiment_overrides;                    ///< key=value, one a line
  std::string experiment_key;                          ///< 16 hexadecimal digits
  std::string warnings;                                ///< one a line
  std::int64_t num_runs = 0;                           ///< of the experiment
  std::vector<std::pair<std::string, AxisType>> axes;  ///< swept keys, slowest first
  std::optional<Shard> shard;                          ///< none: all runs are here
  bool operator==(const ResultsHead&) const = default;
};
[[nodiscard]] ResultsHead results_head(const Experiment& experiment);

/// What the file says of a run beside its result.
struct RunRecord {
  std::int64_t index = 0;
  std::string key, seed;         ///< 16 hexadecimal digits each
  std::string compression;       ///< the resolved setting as one line of YAML
  std::int64_t grid_offset = 0;  ///< tokens
  /// What else of the resolved setting the columns `<name>_setting` show; none in files that were written without.
  std::map<std::string, std::string> texts;     ///< model, gpu (names of files without folder and ending)
  std::map<std::string, std::int64_t> numbers;  ///< context_tokens, batch, loss_span
  std::vector<std::string> labels;              ///< [axis]
  std::int64_t baseline = -1;                   ///< index of the run it is compared with; -1: none
  bool operator==(const RunRecord&) const = default;
};
[[nodiscard]] RunRecord run_record(const Experiment& experiment, const Run& run);

/// @param records    in the order of the file
/// @param result_of  the result of records[row], asked once each, in order
/// @throws EnvironmentError
void write_results(const std::string& path, const ResultsHead& head, const std::vector<RunRecord>& records,
                   const std::function<RunResult(std::size_t row)>& result_of, const Provenance& provenance);

/// Path of a run's file inside the folder: "<folder>/00012.h5".
[[nodiscard]] std::string run_file_path(const std::string& runs_folder, std::int64_t index);

}  // namespace kvtide::experiment
