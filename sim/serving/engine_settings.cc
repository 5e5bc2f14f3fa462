#include "serving/engine_settings.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::serving {

void EngineSettings::validate() const {
  const auto require = [](bool is_good, const char* name, auto value, const char* allowed) {
    if (!is_good) throw InputError(fmt::format("engine: {} {}: expected {}", name, value, allowed));
  };
  require(num_blocks >= 2, "num_blocks", num_blocks, ">= 2");
  require(block_size >= 1 && block_size <= 65536, "block_size", block_size, "1..65536");
  require(max_num_seqs >= 1, "max_num_seqs", max_num_seqs, ">= 1");
  require(max_num_batched_tokens >= 1, "max_num_batched_tokens", max_num_batched_tokens, ">= 1");
  require(long_prefill_threshold >= 0, "long_prefill_threshold", long_prefill_threshold, ">= 0");
  require(growth.keep_ratio > 0 && growth.keep_ratio <= 1, "keep_ratio", growth.keep_ratio, "(0, 1]");
  require(growth.always_kept >= 0, "always_kept", growth.always_kept, ">= 0");
  require(growth.interval >= 1, "interval", growth.interval, ">= 1");
  require(growth.window >= 0, "window", growth.window, ">= 0");
  require(growth.window_weight >= 0, "window_weight", growth.window_weight, ">= 0");
  require(watermark >= 0 && watermark < 1, "watermark", watermark, "[0, 1)");
  require(host_blocks >= 0, "host_blocks", host_blocks, ">= 0");
}

}  // namespace kvtide::serving
