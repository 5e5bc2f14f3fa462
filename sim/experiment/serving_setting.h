#pragma once
// What an experiment file's `workload:`, `engine:`, `slo:` and `calibration:` ask for.

#include <cstdint>
#include <string>

#include "serving/calibrated_step_time.h"
#include "serving/engine_settings.h"
#include "serving/front.h"
#include "serving/serving_run.h"
#include "serving/serving_statistics.h"
#include "serving/workload.h"

namespace kvtide::experiment {

struct ServingSetting {
  std::string requests;   ///< a CSV, resolved against the experiment file's folder; empty: drawn
  double rate_scale = 1;  ///< of the CSV's arrivals: 2 is twice the traffic
  serving::SyntheticWorkload drawn;
  std::int64_t seeds = 1;  ///< drawn: runs with their own draws, for intervals
  serving::LongRequests long_requests = serving::LongRequests::refuse;
  serving::Front front;  ///< is_padded: to a multiple of the compression's block; `multiple` is not set here
  std::string facts;     ///< a CSV of where prompts put their facts; empty: not known

  std::string engine = "vllm";  ///< vllm, sglang, trtllm
  double memory_share =
      0.9;  ///< gpu_memory_utilization; trtllm: free_gpu_memory_fraction; sglang: mem_fraction_static, 0: its rule
  std::int64_t num_blocks = 0;     ///< of the cache; 0: from the memory account
  std::int64_t max_model_len = 0;  ///< 0: the model's
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 8192;
  bool prefix_caching = true;
  double watermark = 0;
  serving::SchedulingPolicy scheduling = serving::SchedulingPolicy::fcfs;
  bool evicts_none = true;  ///< trtllm: GUARANTEED_NO_EVICT, else MAX_UTILIZATION
  double swap_space = 0;    ///< bytes of host memory a rank, for caches that give way
  std::int64_t replicas = 1;
  serving::Routing routing = serving::Routing::round_robin;
  std::int64_t prefill_replicas = 0;
  double transfer_bandwidth = 0;  ///< B/s a prefill engine; 0: the GPU's own link, of every rank
  double transfer_latency = 0;    ///< s; with bandwidth 0 that of the GPU's link
  serving::Objectives objectives;
  serving::Calibration calibration;  ///< of the user's own server
  bool operator==(const ServingSetting&) const = default;
};

/// Every field that decides the result but the requests' file, whose content the caller names.
[[nodiscard]] std::string serving_text(const ServingSetting& setting, const std::string& requests_fingerprint);

}  // namespace kvtide::experiment
