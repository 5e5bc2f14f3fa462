// Scores of heads in their three layouts, and the budgets that come of them.

#include "experiment/head_table.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvtide::fuzz::expect_answer([&] {
    const kvtide::fuzz::NamedBytes file(data, size);
    const kvtide::kv::HeadTable table = kvtide::experiment::read_head_table(file.path());
    for (const bool keeps_whole_heads : {true, false}) {
      const kvtide::kv::HeadRule rule{.keeps_whole_heads = keeps_whole_heads, .window = 64};
      (void)kvtide::kv::head_keeps(table, rule, 250'000, 3, 5, 8, 1000);
    }
  });
  return 0;
}
