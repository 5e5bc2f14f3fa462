#pragma once
// --set KEY=VALUE, of commands that read a YAML file.

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace kvtide::cli {

/// Every --set, in order. Example: `--set plan.rate="40 /s"` -> {"plan.rate", "40 /s"}; the value may hold "=" itself.
/// @throws InputError  without a key or without "="
[[nodiscard]] std::vector<std::pair<std::string, std::string>> set_option(const Arguments& arguments);

}  // namespace kvtide::cli
