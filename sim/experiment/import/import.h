#pragma once
// A serving stack's command line, configuration or log -> the experiment it means.

#include <string>

#include "experiment/import/imported.h"

namespace kvtide::experiment {

inline constexpr const char* kStandInGpu = "h100-sxm";

/// What the user knows besides.
struct ImportHints {
  std::string stack = {};  ///< empty: recognised
  std::string model = {};  ///< a name or a config.json; empty: the stack's model, mapped to a shipped one
  std::string gpu = {};    ///< empty: kStandInGpu
  std::string trace = {};
  std::string requests = {};  ///< the server's traffic, a CSV as `workload: {requests: ...}` takes it; empty: not known
};

/// @param text  of at most 4 MiB
/// The batch is what the stack's limit of sequences allows and what fits the hints' GPU, with requests the
/// engine's share of it, see Imported::batch_reason.
/// @throws InputError when no stack is recognised, a value is one that the stack would refuse, or it is kvtide's own file
[[nodiscard]] Imported import_text(const std::string& text, const ImportHints& hints);

/// The experiment file: comments that say what happens to the cache, then YAML that `kvtide run` takes.
[[nodiscard]] std::string experiment_yaml(const Imported& imported, const ImportHints& hints);

}  // namespace kvtide::experiment
