// What `kvtide calibrate` reads: benchmark output as text or JSON. And a line of a plan's journal.

#include "hostile_input.h"
#include "planning/benchmark_log.h"
#include "planning/candidate_journal.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  kvtide::fuzz::expect_answer([&] { (void)kvtide::planning::read_benchmarks(text, "hostile.log"); });
  kvtide::fuzz::expect_answer([&] {
    kvtide::planning::Candidate candidate;
    (void)kvtide::planning::read_journal_text(text, candidate);
  });
  return 0;
}
