#pragma once
// Where sparse attention starts to beat dense, against measured whole modules (compressed_decode rows with an indexer). The
// tables hold no dense module, so each measured sparse time is compared with our dense module of the same shape.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/access_pattern.h"

namespace kvtide::gpu {

/// Rows of one GPU and framework. A row decides when its context is beyond a factor of 2 of the predicted crossover of its
/// batch, heads and formats: sparse must then be faster above and slower below.
struct CrossoverGroup {
  std::string gpu;
  std::string framework;
  std::int64_t rows = 0;
  std::int64_t decided = 0;
  std::int64_t wrong = 0;
  /// Predicted crossover, tokens, at batch 1, 16 and 64 with 128 heads of DeepSeek-V3.2, 8-bit weights and KV;
  /// infinity: none up to 131,072.
  std::vector<double> crossovers;
};

/// Batches of CrossoverGroup::crossovers.
[[nodiscard]] const std::vector<std::int64_t>& crossover_batches();

/// @param files  <gpu>_<operation>.csv; those of other operations are passed over
/// @throws InputError  damaged tables, a GPU without a profile
[[nodiscard]] std::vector<CrossoverGroup> check_crossovers(const std::vector<std::string>& files, Fidelity fidelity);

}  // namespace kvtide::gpu
