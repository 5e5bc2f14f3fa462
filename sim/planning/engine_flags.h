#pragma once
// The chosen setting in the words of a serving stack, and what to check once it runs: where the prefix should end, which positions to
// probe.
//
// Names of flags and cache types as in vLLM 0.19, SGLang 0.5 and TensorRT-LLM 1.0; `kvtide import` reads them back.

#include <cstdint>
#include <string>
#include <vector>

#include "planning/plan_search.h"

namespace kvtide::planning {

/// The stack's name of the cache type that stores what the setting stores; empty: it has none.
/// Example: one stage of fp8_e4m3: "fp8" (vllm), "fp8_e4m3" (sglang), "fp8" (trtllm).
[[nodiscard]] std::string cache_type(const std::string& stack, const kv::Compression& setting);

/// A position to ask about, and what is expected there.
struct Probe {
  std::int64_t position = 0;  ///< of the recorded trace
  std::int64_t phase = 0;     ///< position modulo block_size
  double loss = 0;
};

/// The worst positions of a loss profile and as many of the best as controls, `spacing` or more apart, worst first. Places
/// that were not measured (NaN) are no probes.
/// Example: losses 0, .9, .8, 0, .1, 0 spaced 2, two probes: position 1 (.9) and, as control, 3 (0).
[[nodiscard]] std::vector<Probe> probe_set(const std::vector<double>& profile, std::int64_t block_size,
                                           std::int64_t spacing, std::size_t count);

/// Command line or configuration, as a shell script with comments. @param stack  vllm, sglang, trtllm
/// @throws InputError  no candidate is possible
[[nodiscard]] std::string emitted_setting(const std::string& stack, const Plan& plan, const PlanOutcome& outcome);

}  // namespace kvtide::planning
