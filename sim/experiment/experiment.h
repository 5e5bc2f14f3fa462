#pragma once
// An experiment file, read strictly, with its sweep expanded into runs.
//
// Example: sweep {compression.block_size: [64, 128], batch: [1, 8]} -> 4 runs, the last axis fastest:
//   00000 (64, 1)  00001 (64, 8)  00002 (128, 1)  00003 (128, 8)

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/setting.h"

namespace kvtide::experiment {

/// More runs than this are refused before any is expanded.
inline constexpr std::uint64_t kMaxRuns = 100'000;

enum class AxisType : std::uint8_t { integer, number, text };

/// One swept key. Its values are a column of the results.
struct Axis {
  std::string column;  ///< the dotted key, "compression.block_size"
  AxisType type = AxisType::text;
  std::vector<std::string> labels;  ///< [value] as shown; distinct
};

/// A pure value: the same run gives the same result in any process, on any thread, in any order.
struct Run {
  std::int64_t index = 0;  ///< 0-based; the group /runs/<index, five digits>
  Setting setting;
  std::vector<std::int64_t> axis_values;  ///< [axis] index into its labels
  std::int64_t baseline = -1;             ///< index of the run it is compared with; -1: none
  std::uint64_t key = 0;   ///< hash of the resolved content (setting, model, GPU, trace bytes), not of names or places
  std::uint64_t seed = 0;  ///< mix64(key); streams of this run: RandomStream(seed, "name")
};

/// A part of an experiment for one of several machines: the runs whose index leaves `index` when divided by `count`,
/// so that neighbours, which cost about the same, go to different machines.
///
/// Example: shard 1 of 3 of seven runs: runs 1 and 4.
struct Shard {
  std::int64_t index = 0;  ///< 0..count - 1
  std::int64_t count = 1;  ///< 1..kMaxRuns
  bool operator==(const Shard&) const = default;
};

struct Experiment {
  std::string name;
  std::string path;                                       ///< as given, for messages
  std::string yaml;                                       ///< the file verbatim
  std::string included_yaml;                              ///< what it includes, see include.h
  std::vector<std::pair<std::string, std::string>> sets;  ///< overrides applied on top of it
  std::vector<Axis> axes;
  std::vector<Run> runs;              ///< all of them, or those of the shard
  std::int64_t num_runs = 0;          ///< all of them
  std::optional<Shard> shard;         ///< none: all runs are here
  std::vector<std::string> warnings;  ///< legal, and probably not meant
  std::uint64_t key = 0;              ///< hash of the runs' keys in order: what --resume compares
};

struct Overrides {
  std::vector<std::pair<std::string, std::string>> sets;  ///< --set path=value, in order; a swept key is pinned by it
  std::optional<std::uint64_t> seed;                      ///< --seed
};

/// @throws InputError with every problem of the file, one a line
[[nodiscard]] Experiment load_experiment(const std::string& path, const Overrides& overrides = {});

/// The same from text. @param base_folder  where relative paths start
[[nodiscard]] Experiment parse_experiment(const std::string& yaml, const std::string& path,
                                          const std::string& base_folder, const Overrides& overrides = {});

/// Leaves only the shard's runs. @throws InputError when the shard is out of range
void take_shard(Experiment& experiment, const Shard& shard);

/// "00012"; six digits never occur below kMaxRuns.
[[nodiscard]] std::string run_name(std::int64_t index);

}  // namespace kvtide::experiment
