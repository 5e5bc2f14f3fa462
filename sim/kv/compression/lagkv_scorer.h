#pragma once
// LagKV (arXiv 2504.04704): positions in partitions of `lag` after the sinks; K and V are scaled by the range that each
// channel has in the next partition, the standard deviation over channels passes through a softmax over the partition,
// and the two are averaged. Without cross scoring only the rank inside the partition counts. The sinks, the last
// partition and what follows it are kept. Too short a context (below sinks + 2 lag) keeps the sinks and the newest.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry lagkv_scorer();

}  // namespace kvtide::kv
