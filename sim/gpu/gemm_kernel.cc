#include "gpu/gemm_kernel.h"

#include "gpu/fact_reader.h"

namespace kvtide::gpu {

bool GemmKernel::serves(const GemmWork& work) const {
  const bool has_fp4_alone = work.format == OperandFormat::nvfp4_wo || work.format == OperandFormat::mxfp4_wo;
  const OperandFormat wanted = has_fp4_alone ? OperandFormat::int4_wo : work.format;
  return format == wanted && work.m >= min_m && work.m <= max_m && work.n % n_multiple == 0 && work.k % k_multiple == 0;
}

GemmKernel read_gemm_kernel(const config::Value& map, std::vector<ProfileFact>& fact_list) {
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;
  GemmKernel kernel;
  kernel.name = map.string("name");
  kernel.framework = map.string("framework");
  (void)from_string(map.choice("format", operand_format_names(), "bfloat16"), kernel.format);
  const config::Value scope = map.at("serves");
  if (scope.exists()) {
    kernel.min_m = scope.integer("min_m", {.fallback = 1, .min = 1, .max = kMaxRows});
    kernel.max_m = scope.integer("max_m", {.fallback = kMaxRows, .min = 1, .max = kMaxRows});
    kernel.n_multiple = scope.integer("n_multiple", {.fallback = 1, .min = 1, .max = 65536});
    kernel.k_multiple = scope.integer("k_multiple", {.fallback = 1, .min = 1, .max = 65536});
  }
  FactReader facts(map, fact_list);
  kernel.fixed_time = facts.quantity("fixed_time", seconds());
  kernel.task_time = facts.quantity("task_time", seconds());
  kernel.tensor_efficiency = facts.number("tensor_efficiency", 0.001, 1);
  kernel.bytes_in_flight =
      static_cast<Bytes>(facts.quantity("bytes_in_flight", positive_quantity(Dimension::size, 1e12)));
  if (map.at("combine_time").exists()) {
    kernel.combine_time = facts.quantity("combine_time", seconds());
    kernel.max_splits = 8;
  }
  if (map.at("smallest_tile").exists()) kernel.smallest_tile = facts.integer("smallest_tile", 1, 128);
  if (map.at("converted_per_cycle").exists()) {
    kernel.converted_per_cycle = facts.number("converted_per_cycle", 1, 4096);
  }
  if (map.at("pass_bytes").exists()) {
    kernel.pass_bytes = facts.quantity("pass_bytes", {.dimension = Dimension::size, .fallback = {}, .max = 1e6});
    kernel.row_time = facts.quantity("row_time", seconds());
  }
  if (map.at("host_time").exists()) kernel.host_time = facts.quantity("host_time", seconds());
  return kernel;
}

}  // namespace kvtide::gpu
