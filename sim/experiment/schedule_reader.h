#pragma once
// `prefill_chunk`, `decode`, `recall` and `share_layers` of a compression mapping: when a cache is compressed, and whose it is.

#include <string>
#include <vector>

#include "config/yaml_value.h"
#include "experiment/setting.h"

namespace kvtide::experiment {

/// Reads the keys of `compression` into `setting`, whose stages are known; errors are recorded in the document.
void read_schedule(const config::Value& compression, Setting& setting);

/// Only what differs from the defaults, each behind a comma. Example: ", decode: {target: 1024, every: 128}".
[[nodiscard]] std::string schedule_text(const Setting& setting);

/// Which of the keys a serving engine's cache growth does not know, for a message; empty: none is given.
[[nodiscard]] std::string unserved_keys(const Setting& setting);

/// What a reader of the results should know of these keys, one sentence each.
[[nodiscard]] std::vector<std::string> schedule_warnings(const Setting& setting);

}  // namespace kvtide::experiment
