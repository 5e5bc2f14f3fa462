#pragma once
// `kvtide validate serving DIR`: published preemption counts and quantized caches against the simulated engine.

#include "cli/command.h"

namespace kvtide::cli {

int validate_serving(const Arguments& arguments);

}  // namespace kvtide::cli
