#pragma once
// `kvtide validate kept TRACE.h5 [COMPANION.h5] REFERENCE.h5`: our choices beside a peer's on the same trace.

#include "cli/command.h"

namespace kvtide::cli {

[[nodiscard]] int validate_kept(const Arguments& arguments);

}  // namespace kvtide::cli
