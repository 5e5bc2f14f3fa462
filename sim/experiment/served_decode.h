#pragma once
// Decode steps of the served model with a setting applied: the cache grows token by token, the machine times each step.

#include <cstdint>
#include <optional>
#include <vector>

#include "experiment/experiment.h"
#include "gpu/decode_timeline.h"
#include "kv/cache_timeline.h"
#include "model/model.h"

namespace kvtide::experiment {

/// Decode steps between two compressions: a block, a residual that is flushed, or the period of a decode target.
[[nodiscard]] std::int64_t compression_period(const kv::Compression& setting, const kv::CacheSchedule& schedule);

/// Decode steps simulated for a setting: two and a half periods, so that two spikes of the comb are seen.
[[nodiscard]] std::int64_t num_decode_steps(const kv::Compression& setting, const kv::CacheSchedule& schedule,
                                            std::int64_t context_tokens);

/// Pages that one layer of a GPU brings from host memory in a decode step: `recall` of what it reads there. The layer's query
/// decides which, so nothing hides the time; host memory has a copy of all, so nothing goes back.
/// Example: 2 heads that read 100 pages of 4,096 B for K and V each, recall 0.05: 81,920 B in 20 pieces.
[[nodiscard]] gpu::HostTransferWork recall_work(const gpu::DecodeAttentionWork& attention, kv::PartsPerMillion recall);

/// The matrices of a model, divided as the setting says; what mixes tokens comes from the cache.
/// @param attention  of the served cache: layers that read alike, together all of them
[[nodiscard]] gpu::DecoderShape decoder_shape(const Model& model, const Setting& setting,
                                              const std::vector<kv::LayerAttention>& attention);

/// How many GPUs one sequence's cache is spread over: pipeline stages times the ranks that KV heads can be divided among.
/// Example: 8 KV heads on 16 ranks: 8. A latent vector is on every rank: 1.
[[nodiscard]] std::int64_t cache_division(const Model& model, const Setting& setting);

/// A layer's attention on the rank that reads most (gpu::share_of_rank()).
[[nodiscard]] gpu::DecodeAttentionWork rank_attention(const kv::LayerAttention& layer, const Setting& setting);

/// Of one sequence, on the GPU that is full first: the fullest rank (kv::rank_bytes()) of the stage with most layers.
/// Approximation: layers are alike.
[[nodiscard]] double fullest_gpu_bytes(const kv::ServedCache& cache, const Model& model, const Setting& setting);

/// How many times the fullest GPU's part one sequence's cache is: cache_division(), less where stages have different numbers of layers.
/// Approximation: layers and heads are alike. Example: 32 layers on 31 stages: one stage holds 2, 32 / 2 = 16; on 32 or 2 stages 32 or 2.
[[nodiscard]] double fullest_gpu_division(const Model& model, const Setting& setting);

/// As the kernels name it; a GPU may execute another (executed_format()).
[[nodiscard]] gpu::OperandFormat operand_format(WeightFormat format);

/// Weights on the fullest of the GPUs that share the model: an equal part of the largest stage's layers, except that with
/// expert_parallel the shared experts are whole on every rank of a stage. Approximations: routers and norms, repeated on
/// every rank too, are divided; embedding and head are spread like layers.
/// Experts in fp4 are as large as their kernels hold them: vLLM 0.10.1 loads gpt-oss-120b's 60.8 GiB into 65.97 (vllm-project/vllm#23278,
/// 65.89 here), its Triton kernels into 64.4.
/// Example, 4 ranks: 100 GB of weights, of which 4 GB shared experts: 25 GB cut, 96 / 4 + 4 = 28 GB whole.
[[nodiscard]] Bytes weight_bytes_per_gpu(const Model& model, const Setting& setting);

/// The run as it is without compression: whole layers, blocks as they fill.
[[nodiscard]] Run uncompressed(Run run);

struct SteppedDecode {
  std::vector<gpu::DecodeStepRecord> records;
  std::vector<gpu::DecodeStepRecord> other_records;  ///< of other_batch sequences whose cache is the same
  std::int64_t first_position = 0;                   ///< context after step 0
  std::int64_t compressed_blocks = 0;
  Picoseconds recall_duration{
      0};  ///< of all steps of records; contained in their durations, in no kernel of a timeline
};

/// @param run      its schedule and layer sharing count; see uncompressed()
/// @param setting  the run's compression, resolved, or none  @param observe  see gpu::StepObserver
/// @param other_batch  a batch timed beside the run's: what costs is the cache, which is walked once; 0: none
[[nodiscard]] SteppedDecode step_through(const Run& run, const kv::Compression& setting, const Model& model,
                                         gpu::Gpu& gpu, const kv::RecordedScores& scores, std::int64_t num_steps,
                                         const gpu::StepObserver& observe = {}, std::int64_t other_batch = 0);

/// Two steps, the second of them the last compression at or before the run's context; nothing where the cache sees none
/// in two periods before it. What num_decode_steps() simulates may hold none where a period is longer.
[[nodiscard]] std::optional<SteppedDecode> step_into_compression(const Run& run, const kv::Compression& setting,
                                                                 const Model& model, gpu::Gpu& gpu,
                                                                 const kv::RecordedScores& scores,
                                                                 std::int64_t other_batch = 0);

}  // namespace kvtide::experiment
