// A serving stack's command line, configuration or log; the experiment that comes of it must be one.

#include "experiment/experiment.h"
#include "experiment/import/import.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvtide::fuzz::expect_answer([&] {
    const kvtide::experiment::ImportHints hints{.model = "llama-3.1-8b", .trace = "none.h5"};
    const auto imported = kvtide::experiment::import_text({reinterpret_cast<const char*>(data), size}, hints);
    const std::string yaml = kvtide::experiment::experiment_yaml(imported, hints);
    kvtide::fuzz::expect_answer([&] { (void)kvtide::experiment::parse_experiment(yaml, "imported.yaml", "."); });
  });
  return 0;
}
