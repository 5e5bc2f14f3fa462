#pragma once
// `kvtide validate e2e RUNS_DIR`.

#include "cli/command.h"

namespace kvtide::cli {

/// Prints measured and replayed figures, as a table or one JSON document. @throws InputError
int validate_e2e(const Arguments& arguments);

}  // namespace kvtide::cli
