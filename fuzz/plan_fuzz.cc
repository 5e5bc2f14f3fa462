// A plan file with its prices and experiment sections.

#include "base/data_directory.h"
#include "hostile_input.h"
#include "planning/plan.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = kvtide::data_directory() + "/experiments/planning";
  kvtide::fuzz::expect_answer([&] {
    (void)kvtide::planning::parse_plan({reinterpret_cast<const char*>(data), size}, "hostile.yaml", folder);
  });
  return 0;
}
