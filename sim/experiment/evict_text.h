#pragma once
// An evict stage as it is written in an experiment file, what differs from the usual left out only where it never was a
// key before.

#include <string>

#include "kv/compression/layer_budget.h"

namespace kvtide::experiment {

[[nodiscard]] std::string to_string(kv::Granularity value);
[[nodiscard]] std::string to_string(kv::HeadScope value);
[[nodiscard]] std::string to_string(kv::BlockScore value);
[[nodiscard]] std::string to_string(kv::Selection value);
[[nodiscard]] std::string to_string(kv::Rest value);

/// 300000 -> "0.3"
[[nodiscard]] std::string ratio_text(kv::PartsPerMillion parts);

/// Example: "{evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.5, heads: per_head}}"
[[nodiscard]] std::string evict_text(const kv::Evict& stage);

/// Empty when uniform, else e.g. "{pyramid: {beta: 20, window: 64}}".
[[nodiscard]] std::string layer_budget_text(const kv::LayerBudget& budget);

}  // namespace kvtide::experiment
