#pragma once
// One finished run on disk, in NAME.runs/: complete or absent, never half. An HDF5 file with the run's arrays under
// relative paths and everything else as attributes; the final file is assembled from these.

#include <cstdint>
#include <optional>
#include <string>

#include "experiment/experiment.h"
#include "experiment/result.h"

namespace kvtide::experiment {

/// Writes partial, fsync, rename. @throws EnvironmentError
void write_run_file(const std::string& path, std::uint64_t run_key, const RunResult& result);

/// Nothing when the file is missing, damaged, incomplete or of another run (its key differs).
[[nodiscard]] std::optional<RunResult> read_run_file(const std::string& path, std::uint64_t run_key);

}  // namespace kvtide::experiment
