// A CSV of requests, and its block ids.

#include "hostile_input.h"
#include "serving/request.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] { (void)kvtide::serving::load_requests(file.path()); });
  return 0;
}
