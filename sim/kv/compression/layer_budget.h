#pragma once
// How much each layer, or each head, may keep. The setting's keep ratio is the mean; a budget moves it between layers.
//
// Example: table {1.0, 0.25} on a model of 4 layers: layers 0 and 1 keep everything, 2 and 3 a quarter.

#include "kv/compression/compression.h"
#include "kv/compression/head_budget.h"
#include "kv/compression/pyramid_budget.h"

namespace kvtide::kv {

struct LayerBudget {
  enum class Kind : std::uint8_t {
    uniform,
    pyramid,  ///< PyramidKV, arXiv 2406.02069
    table,    ///< one keep ratio per part of the depth, first to last
    lazy,     ///< SimLayerKV, arXiv 2410.13846: layers that look at sinks and newest alone keep only these
    heads     ///< a table of scores by head (head_budget.h)
  };
  Kind kind = Kind::uniform;
  PyramidRule pyramid;
  std::vector<PartsPerMillion> table;
  double lazy_threshold = 0.9;    ///< attention on sinks and newest positions above which a layer is lazy
  std::int64_t lazy_kept = 1028;  ///< positions that a lazy layer keeps
  HeadTable heads = {};           ///< of KV heads, unless heads_misfit says otherwise
  HeadRule head_rule = {};
  /// Where the table has the shape of another model than the served one: what it is and what was expected. The trace's
  /// model is the other one that it may be of.
  std::string heads_misfit = {};
  bool operator==(const LayerBudget& other) const {
    return kind == other.kind && pyramid.window == other.pyramid.window && pyramid.beta == other.pyramid.beta &&
           table == other.table && lazy_threshold == other.lazy_threshold && lazy_kept == other.lazy_kept &&
           heads == other.heads && head_rule == other.head_rule && heads_misfit == other.heads_misfit;
  }
};

/// @param is_lazy  lazy budgets: whether the layer is
/// @return keep ratio of the layer, in (0, 1e6]
[[nodiscard]] PartsPerMillion layer_keep(const LayerBudget& budget, PartsPerMillion keep, std::int64_t layer,
                                         std::int64_t num_layers, std::int64_t num_positions, bool is_lazy);

/// [kv_head] keep ratios of a layer; empty unless the budget is by head.
[[nodiscard]] std::vector<PartsPerMillion> keep_by_head(const LayerBudget& budget, PartsPerMillion keep,
                                                        std::int64_t layer, std::int64_t num_layers,
                                                        std::int64_t num_heads, std::int64_t num_positions);

/// The setting with every evict stage at another keep ratio. @param by_head  as Evict::head_keep
[[nodiscard]] Compression with_keep(Compression setting, PartsPerMillion keep,
                                    const std::vector<PartsPerMillion>& by_head = {});

}  // namespace kvtide::kv
