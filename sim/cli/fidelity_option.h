#pragma once
// --fidelity roofline|sampled|detailed.

#include <string>

#include "cli/command.h"
#include "gpu/access_pattern.h"

namespace kvtide::cli {

[[nodiscard]] std::string fidelity_name(gpu::Fidelity fidelity);
/// @throws InputError for any other name
[[nodiscard]] gpu::Fidelity fidelity_option(const Arguments& arguments, gpu::Fidelity fallback);

}  // namespace kvtide::cli
