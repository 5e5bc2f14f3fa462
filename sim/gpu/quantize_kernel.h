#pragma once
// A cast of activations as a framework runs it, as data. Records stand in hw_profiles/kernel_sets/<architecture>.yaml.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "config/yaml_value.h"
#include "gpu/attention_kernel.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// Times in seconds.
struct QuantizeKernel {
  std::string name;
  std::string framework;
  QuantizeStep step = QuantizeStep::cast;
  std::int64_t block_elements = 0;  ///< of one thread block; 0: a row
  std::int64_t blocks_per_sm = 1;   ///< resident at the same time
  double fixed_time = 0;            ///< once a call (launch not included)
  double task_time = 0;             ///< of one thread block
  Bytes bytes_in_flight = 0;        ///< of one thread block, requested or on their way out
  double l2_share = 1;              ///< of the profile's L2 bandwidth
  double memory_share = 1;          ///< of the pins, reads and writes mixed

  [[nodiscard]] bool serves(const QuantizeWork& work) const { return step == work.step; }
};

/// Errors go to the document of `map`.
[[nodiscard]] QuantizeKernel read_quantize_kernel(const config::Value& map, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu
