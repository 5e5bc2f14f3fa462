// The bytes of a results file, read back run by run as merge, export and resume do.

#include "experiment/results_reader.h"
#include "experiment/run_file.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] {
    const kvtide::experiment::ResultsReader results(file.path());
    for (std::size_t row = 0; row < results.records().size(); ++row) {
      kvtide::fuzz::expect_answer([&] { (void)results.result(row); });
    }
  });
  return 0;
}
