// The bytes of a results file, read back run by run as merge and resume do, up to the first that is damaged: each damaged text may
// cost the HDF5 library memory that it never gives back.

#include "experiment/results_reader.h"
#include "experiment/run_file.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] {
    const kvtide::experiment::ResultsReader results(file.path());
    for (std::size_t row = 0; row < results.records().size(); ++row) (void)results.result(row);
  });
  return 0;
}
