#pragma once
// --shard I/N, or a scheduler's array index.

#include <optional>
#include <string>

#include "cli/command.h"
#include "experiment/experiment.h"

namespace kvtide::cli {

/// What --shard says: "3/8", or "auto", which takes it from the environment: SLURM_ARRAY_TASK_ID, _MIN and _COUNT of a
/// Slurm array, or JOB_COMPLETION_INDEX of a Kubernetes indexed job with KVTIDE_SHARDS. Without the option a Slurm array
/// or an indexed job with KVTIDE_SHARDS is sharded too; `--shard 0/1` runs everything there.
/// @throws InputError
[[nodiscard]] std::optional<experiment::Shard> shard_option(const Arguments& arguments);

/// "results/demo.h5", shard 3 of 8 -> "results/demo.shard-3-of-8.h5"; digits are padded so that names sort.
[[nodiscard]] std::string shard_path(const std::string& path, const experiment::Shard& shard);

}  // namespace kvtide::cli
