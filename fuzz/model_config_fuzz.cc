// A config.json, and what is derived from it.

#include "hostile_input.h"
#include "model/model.h"
#include "model/model_json.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvtide::fuzz::NamedBytes file(data, size);
  kvtide::fuzz::expect_answer([&] {
    const kvtide::Model model = kvtide::load_model(file.path());
    (void)kvtide::model_json(model);
    for (const std::int64_t ranks : {1, 2, 8}) {
      kvtide::fuzz::expect_answer([&] { (void)model.layers_of_rank(ranks); });
    }
    kvtide::fuzz::expect_answer([&] { (void)model.layers_between(0, model.num_layers); });
    kvtide::fuzz::expect_answer([&] { (void)model.weight_bytes(); });
  });
  return 0;
}
