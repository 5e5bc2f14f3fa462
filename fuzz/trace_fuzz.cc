// The bytes of an attention trace, every tensor checked.

#include "attention/trace.h"
#include "hostile_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] { (void)kvtide::attention::check_trace(file.path()); });
  return 0;
}
