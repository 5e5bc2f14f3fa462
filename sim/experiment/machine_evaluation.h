#pragma once
// The machine half of a run: the setting applied to the served geometry, its bytes in pages, and the time of decode
// steps while tokens are appended and blocks are compressed.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "gpu/gpu.h"
#include "kv/served_cache.h"
#include "model/model.h"

namespace kvtide::experiment {

/// Share of the device memory an engine may use (vLLM's default gpu_memory_utilization).
inline constexpr double kUsableMemoryShare = 0.9;

/// Activations and non-tensor memory beside weights and KV: 4.76 + 0.13 GiB, what vLLM 0.11 reports for Llama-3.1-8B on
/// an H100 (llm-d-planner, docs/empirical-vllm-memory-results.md, Apache-2.0). Approximation for every model and GPU:
/// the same source shows 2.3 to 7.5 GiB by model, and a 24 GiB card ran the same model with 1.15 GiB.
inline constexpr Bytes kOverheadBytes = 489 * kGiB / 100;

/// Adds memory and time columns and the machine arrays to `result`, as far as the run measures them.
/// @param setting the run's compression, resolved on the trace
/// @param scores  of the trace, by which served blocks are chosen
void evaluate_machine(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result);

/// Bytes for KV on the fullest GPU, 0 when the weights alone do not fit: memory * 0.9 - weights - overhead, or what the engine
/// of a run that serves requests leaves (memory_account(); blocks that are given, without the null page).
[[nodiscard]] Bytes kv_capacity(const Run& run, const Model& model, const gpu::GpuProfile& profile);

}  // namespace kvtide::experiment
