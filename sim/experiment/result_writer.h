#pragma once
// The final file: /summary/<column> over `run`, and each run's arrays under /runs/<index>/. Read from the run files one
// at a time, so that memory does not grow with the arrays of a long sweep beyond the file itself.

#include <cstdint>
#include <string>

#include "experiment/experiment.h"

namespace kvtide::experiment {

/// Layout of the results; raised when a column or group changes its meaning.
inline constexpr std::int64_t kSchemaVersion = 1;

struct Provenance {
  std::string kvtide_version;
  std::string source_commit;
  std::string created;  ///< see creation_time()
};

/// SOURCE_DATE_EPOCH when set, else now, as "2001-09-09T01:46:40Z". @throws InputError when the variable is not a count
/// of seconds
[[nodiscard]] std::string creation_time();

/// @param runs_folder  holds a complete run file for every run. @throws EnvironmentError, InputError naming a missing
/// run
void write_results(const std::string& path, const Experiment& experiment, const std::string& runs_folder,
                   const Provenance& provenance);

/// Path of a run's file inside the folder: "<folder>/00012.h5".
[[nodiscard]] std::string run_file_path(const std::string& runs_folder, std::int64_t index);

}  // namespace kvtide::experiment
