#pragma once
// A trace as the experiment names it: a file, or a generator.

#include <string>

#include "attention/trace.h"
#include "experiment/setting.h"

namespace kvtide::experiment {

/// Whether the generator's parameter of this name is counted: a whole number.
[[nodiscard]] bool is_whole_parameter(const std::string& name);

/// @param seed  of the synthetic generator; a recorded trace ignores it
/// @throws InputError
[[nodiscard]] attention::Trace open_trace(const TraceSource& source, std::uint64_t seed);

}  // namespace kvtide::experiment
