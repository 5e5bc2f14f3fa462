#include "gpu/quantize_kernel.h"

#include "gpu/fact_reader.h"

namespace kvtide::gpu {

QuantizeKernel read_quantize_kernel(const config::Value& map, std::vector<ProfileFact>& fact_list) {
  QuantizeKernel kernel;
  kernel.name = map.string("name");
  kernel.framework = map.string("framework");
  kernel.step = map.choice("step", {"cast", "find_scale"}) == "cast" ? QuantizeStep::cast : QuantizeStep::find_scale;
  FactReader facts(map, fact_list);
  kernel.block_elements = facts.integer("block_elements", 0, std::int64_t{1} << 30);
  kernel.blocks_per_sm = facts.integer("blocks_per_sm", 1, 64);
  kernel.fixed_time = facts.quantity("fixed_time", seconds());
  kernel.task_time = facts.quantity("task_time", seconds());
  kernel.bytes_in_flight =
      static_cast<Bytes>(facts.quantity("bytes_in_flight", positive_quantity(Dimension::size, 1e12)));
  kernel.l2_share = facts.number("l2_share", 0.01, 10);
  kernel.memory_share = facts.number("memory_share", 0.01, 1);
  return kernel;
}

}  // namespace kvtide::gpu
