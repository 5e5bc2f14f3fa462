#pragma once
// Scores of a model's heads, as published: `heads_file` of an evict stage. One of
//   {"0-0": [0.1, 0.3], "0-1": 0.2, ...}   HeadKV and other probes: "layer-head", the mean of its scores
//   [[0.1, 0.3], [0.2, 0.4]]               a list of layers, each a list of heads
//   0.1<tab>0.3                            DuoAttention: a line a layer, a column a head; blanks and commas do as well
// Heads are query heads or KV heads; head_budget.h tells by their number.

#include <string>

#include "kv/compression/head_budget.h"

namespace kvtide::experiment {

/// @throws InputError  naming file, line, head, what was found and what is expected: a head twice or missing, an empty list,
/// what is no number in 0..1e30, only zeros, more than 4,096 layers or heads
[[nodiscard]] kv::HeadTable read_head_table(const std::string& path);

}  // namespace kvtide::experiment
