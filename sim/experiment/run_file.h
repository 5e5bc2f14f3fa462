#pragma once
// One finished run on disk, in NAME.runs/: complete or absent, never half. An HDF5 file with the run's arrays under
// relative paths and everything else as attributes; the final file is assembled from these.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/result.h"

namespace kvtide::experiment {

/// Writes partial, fsync, rename. @param build  of the kvtide that computed it (Provenance::build)  @throws EnvironmentError
void write_run_file(const std::string& path, std::uint64_t run_key, const std::string& build, const RunResult& result);

/// Nothing when the file is missing, damaged, incomplete, of another run (its key differs) or of another build.
[[nodiscard]] std::optional<RunResult> read_run_file(const std::string& path, std::uint64_t run_key,
                                                     const std::string& build);

/// Whether reading these files crashes or hangs the HDF5 library itself; tried in a child (child_trial.h).
[[nodiscard]] bool stop_the_library(std::span<const std::string> paths);
/// Removes those that do, so that what is left can be read here. One trial for all; one each only where that one failed.
void remove_fatal_run_files(const std::vector<std::string>& paths);

}  // namespace kvtide::experiment
