#include "cli/fidelity_option.h"

#include <fmt/format.h>

#include "base/error.h"
#include "experiment/setting.h"

namespace kvtide::cli {

std::string fidelity_name(gpu::Fidelity fidelity) {
  return experiment::to_string(fidelity);
}

gpu::Fidelity fidelity_option(const Arguments& arguments, gpu::Fidelity fallback) {
  const std::string name = arguments.text("fidelity").value_or(fidelity_name(fallback));
  for (const gpu::Fidelity fidelity : {gpu::Fidelity::roofline, gpu::Fidelity::sampled, gpu::Fidelity::detailed}) {
    if (name == fidelity_name(fidelity)) return fidelity;
  }
  throw InputError(fmt::format("--fidelity: expected roofline, sampled or detailed, got \"{}\"", name));
}

}  // namespace kvtide::cli
