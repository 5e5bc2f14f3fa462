// An experiment file, expanded into its runs and estimated; nothing is computed.

#include "base/data_directory.h"
#include "experiment/dry_run.h"
#include "experiment/experiment.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = kvtide::data_directory() + "/experiments";
  kvtide::fuzz::expect_answer([&] {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto experiment = kvtide::experiment::parse_experiment(text, "hostile.yaml", folder);
    (void)kvtide::experiment::dry_run_text(experiment, {});
  });
  return 0;
}
