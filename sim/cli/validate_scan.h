#pragma once
// `kvtide validate scan`: measured scans of a real model against what one full-cache pass a prompt predicts.

#include "cli/command.h"

namespace kvtide::cli {

[[nodiscard]] int validate_scan(const Arguments& arguments);

}  // namespace kvtide::cli
