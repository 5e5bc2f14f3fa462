// The bytes of an attention trace: checked, and read as a run reads it.

#include "attention/trace.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] { return kvtide::attention::check_trace(file.path()).empty(); });
  kvtide::fuzz::expect_answer([&] {
    const auto trace = kvtide::attention::Trace::open(file.path());
    for (std::int64_t layer = 0; layer < trace.num_layers(); ++layer) (void)trace.load_layer(layer);
  });
  return 0;
}
