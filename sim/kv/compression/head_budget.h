#pragma once
// Budgets by head from a table of scores that somebody measured once for a model, by probes or by training.
//
//   shared pool (HeadKV, arXiv 2410.19258): of every head's budget beyond the window, b, a part floor(b / beta) goes into a
//     pool of all heads of the model and comes back by score; the other part and the newest `window` positions are each
//     head's own
//   whole heads (DuoAttention, arXiv 2410.10819): heads whose score reaches the quantile that `share` of the model's heads
//     reach keep everything, the others what is protected
//
// Example, pool: 1 layer of 2 heads, scores 3 and 1, 100 positions, half kept, window 10, beta 2: b = 40, pool 20 a head, own
// 20: counts 10 + 20 + 3/4 * 40 = 60 and 10 + 20 + 1/4 * 40 = 40.
// Example, whole: scores 0.9, 0.2, 0.5, 0.4, share 0.5: the first and the third.

#include <optional>

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct HeadTable {
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;  ///< of a layer
  std::vector<double> scores;  ///< [layer, head], 0..1e30, not all 0
  bool operator==(const HeadTable&) const = default;
};

struct HeadRule {
  bool keeps_whole_heads = false;
  PartsPerMillion share = 500'000;  ///< whole heads: of the model's KV heads
  double beta = 1.2;                ///< pool: 1 gives everything by score, much is even; >= 1
  std::int64_t window = 0;          ///< pool: newest positions that every head keeps
  bool operator==(const HeadRule&) const = default;
};

/// The table for the KV heads of a model: as it is, or means over the query heads of each group.
/// @return nothing when it has neither the model's KV heads nor its query heads in as many layers
[[nodiscard]] std::optional<HeadTable> of_kv_heads(const HeadTable& table, std::int64_t num_layers,
                                                   std::int64_t num_query_heads, std::int64_t num_kv_heads);

/// [kv_head] keep ratios of one layer. Another model's layer takes the table's nearest in relative depth, its head h the
/// table's h mod num_heads. A ratio beyond 1 is 1: what a head has no positions for is not given to others.
/// @param keep  of all heads together, in (0, 1e6]
[[nodiscard]] std::vector<PartsPerMillion> head_keeps(const HeadTable& table, const HeadRule& rule,
                                                      PartsPerMillion keep, std::int64_t layer, std::int64_t num_layers,
                                                      std::int64_t num_heads, std::int64_t num_positions);

}  // namespace kvtide::kv
