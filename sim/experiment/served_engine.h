#pragma once
// A serving engine for a run: what its cache holds of a sequence, where the GPU's memory goes, what its steps compute. Bytes and held
// tokens are those of the same compressed cache that the machine and the loss meter read.

#include "experiment/experiment.h"
#include "gpu/gpu.h"
#include "kv/served_cache.h"
#include "model/model.h"
#include "serving/cache_growth.h"
#include "serving/machine_step_time.h"
#include "serving/memory_account.h"
#include "serving/serving_run.h"

namespace kvtide::experiment {

/// What the setting does to a cache of some context, in the layers that keep all of it, on the tensor-parallel rank that is full
/// first. Windows are not compressed.
/// Example: half of the blocks evicted, the others in fp8: {0.5, 0.5}.
struct CompressedShare {
  double entries = 1;  ///< kept of all: what GPU memory holds, whether or not a step reads it
  double bytes = 1;    ///< of a kept entry against 16 bits, metadata included
};

/// @param setting  the run's compression, resolved  @param context  tokens, >= 1
[[nodiscard]] CompressedShare compressed_share(const Run& run, const kv::Compression& setting, const Model& model,
                                               const kv::RecordedScores& scores, std::int64_t context);

/// How a sequence's cache grows, so that it holds `share` of `context` tokens; its windows.
[[nodiscard]] serving::CacheGrowth cache_growth(const Model& model, const kv::Compression& setting,
                                                const CompressedShare& share, std::int64_t context);

/// Memory of one rank by the rules of the run's engine. @pre run.setting.serving has a value
/// @param entry_share  CompressedShare::bytes
[[nodiscard]] serving::MemoryAccount memory_account(const Run& run, const Model& model, const gpu::GpuProfile& profile,
                                                    double entry_share);

/// What the machine half of a run reads, converts, rebuilds and compresses at `context` (kv::CacheTimeline), as work per entry.
/// Approximations: layers and the heads of a rank that keep more or less than others are as their mean, and an entry costs at every
/// length what it costs at `context`. @pre run.setting.serving has a value
/// @param entry_share  CompressedShare::bytes  @param context  tokens, >= 1
[[nodiscard]] serving::MachineStepTime::Options step_options(const Run& run, const kv::Compression& setting,
                                                             const Model& model, const kv::RecordedScores& scores,
                                                             double entry_share, std::int64_t context);

/// Switches of one engine by the rules of the run's kind. @pre run.setting.serving has a value
/// @param account  of one rank  @param num_blocks  of the cache, >= 2
[[nodiscard]] serving::EngineSettings engine_settings(const Run& run, const serving::MemoryAccount& account,
                                                      std::int64_t num_blocks, const serving::CacheGrowth& growth);

/// All engines of the run and the links between them. @pre run.setting.serving has a value
/// @throws InputError  prefill apart from decode, and neither the file nor the GPU's profile says how fast the link is
[[nodiscard]] serving::Fleet fleet_of(const Run& run, const Model& model, const gpu::GpuProfile& profile,
                                      double entry_share, const serving::EngineSettings& engine);

}  // namespace kvtide::experiment
