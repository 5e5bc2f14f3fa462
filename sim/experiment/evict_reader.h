#pragma once
// `evict:` of an experiment file -> kv::Evict. A scorer's own parameters stand beside the stage's keys:
// {scorer: snapkv, window: 32, granularity: token, keep_ratio: 0.25}.

#include <optional>

#include "experiment/setting_reader.h"

namespace kvtide::experiment {

/// 0.3 -> 300000. None, and an error at `value`, for more than six decimals: 3e-7 is no part of a million.
[[nodiscard]] std::optional<kv::PartsPerMillion> exact_parts(const config::Value& value, double share);

/// exact_parts() of a share above 0. @return parts per million, 1..10^6
[[nodiscard]] kv::PartsPerMillion read_share(const config::Value& value, double fallback);

/// Errors are recorded in the document. @param resolver  finds the file of `kept`
[[nodiscard]] kv::Evict read_evict(const config::Value& value, NameResolver& resolver);

/// `heads_file:` of an evict stage whose other keys are read: budgets by head, in place of `heads: adaptive` and `threshold`.
/// With scorer retrieval_heads its `share` of the model's heads keep everything (DuoAttention), else `beta` says how much
/// goes by score (HeadKV). Example: {scorer: headkv, heads_file: scores.json, beta: 1.2, keep_ratio: 0.1}.
/// @param model  the served one; null where it cannot be used
void read_heads_file(const config::Value& evict, kv::Evict& stage, kv::LayerBudget& budget, NameResolver& resolver,
                     const Model* model);

/// `budget:` of an evict stage: uniform, pyramid or lazy, alone or as the only key of a mapping with its numbers
/// ({pyramid: {beta: 10, window: 64}}, {lazy: {threshold: 0.9, kept: 1028}}), or {layers: [1.0, 0.5, 0.25]}.
[[nodiscard]] kv::LayerBudget read_layer_budget(const config::Value& value);

}  // namespace kvtide::experiment
