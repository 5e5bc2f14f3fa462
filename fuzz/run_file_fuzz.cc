// The bytes of a finished run, as --resume finds them.

#include "experiment/run_file.h"
#include "hostile_input.h"

// Of the seed: its own key, so that it is read to the end.
constexpr std::uint64_t kRunKey = 0;
constexpr const char* kBuild = "seed";

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] {
    // What a trial in a child survives must not crash here.
    if (kvtide::experiment::stop_the_library({&file.path(), 1})) return false;
    return kvtide::experiment::read_run_file(file.path(), kRunKey, kBuild).has_value();
  });
  return 0;
}
