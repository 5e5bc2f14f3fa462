#pragma once
// Importance of each cached position, from recorded numbers. One scorer a file; registered by name in one table.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/compression/compression.h"

namespace kvtide::kv {

/// A number a scorer takes, with what it is when nobody gives it.
struct ScorerParameter {
  std::string name;
  double fallback = 0;
  double min = 0;
  double max = 0;
  bool is_integer = true;
  std::string summary;
};

/// What a scorer reads besides keys and values: decides what a trace must hold, what the machine computes, and whether
/// the served context may be scored without a trace.
struct ScorerNeeds {
  enum class Queries : std::uint8_t {
    none,
    last,    ///< the newest query
    window,  ///< the newest score_window, or as many as the scorer's own parameter `window` says
    all,     ///< every query of the positions scored
    future   ///< queries that come after: an oracle, never a policy that could run
  };
  Queries queries = Queries::none;
  bool keys = true;
  bool values = false;
  bool keys_before_rope = false;
  bool own_row_only = false;  ///< a position's score depends on no other position
  bool output_projection = false;
  bool positions_only = false;  ///< a function of the number of positions: the served context is scored as it is
  bool keep_ratio = false;      ///< other scores for another keep ratio
  /// fp16 vectors of head_dim that stand for a page of positions and are read to choose it; 0: none, or as many as
  /// `digest_parameter` says, at most one a position.
  std::int64_t digest_vectors = 0;
  std::string_view digest_page = {};       ///< the parameter that says how many positions a page has; empty: no digests
  std::string_view digest_parameter = {};  ///< the parameter that says how many vectors a page has
  double flops_per_key_element = 2;        ///< arithmetic besides the dot products with queries
};

struct ScorerContext {
  std::int64_t num_positions = 0;    ///< positions to score, 0..num_positions-1
  std::int64_t score_window = 64;    ///< last queries before num_positions that may be used (causal: they see only what
                                     ///< precedes)
  std::int64_t num_heads = 0;        ///< KV heads; needed where there are no tensors
  PartsPerMillion keep = 500000;     ///< for scorers whose scores depend on it
  ScorerParameters parameters = {};  ///< all of the scorer's, sorted; score_layer() fills in the fallbacks
  const RowMatrix* output_projection = nullptr;  ///< W_o [hidden, query_head * head_dim]
  const LayerScores* given = nullptr;            ///< scorer `file`: the layer's scores as they were read
  std::uint64_t seed = 1;                        ///< of the layer's own stream, for scorers that draw

  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
};

/// Scores of the given positions of one head alone, in their order; what a scorer says when nothing else is in the cache.
using Rescore = std::function<std::vector<double>(std::size_t head, const std::vector<std::int64_t>& positions)>;

struct ScorerEntry {
  std::string name;
  std::string summary;
  std::string paper;
  std::vector<ScorerParameter> parameters;
  ScorerNeeds needs;
  LayerScores (*score)(const LayerTensors& layer, const ScorerContext& context);
  /// For scorers that answer for some positions without a copy of their rows; null: the rows are copied and scored. The
  /// layer outlives the answer.
  Rescore (*rescore)(const LayerTensors& layer, const ScorerContext& context) = nullptr;
};

/// Every scorer, sorted by name.
[[nodiscard]] const std::vector<ScorerEntry>& scorers();
/// @throws InputError naming the nearest when unknown
[[nodiscard]] const ScorerEntry& find_scorer(const std::string& name);

/// The entry's parameters with what `given` says of them. @throws InputError for a name the scorer has not, or a value
/// out of its range
[[nodiscard]] ScorerParameters resolved_parameters(const ScorerEntry& entry, const ScorerParameters& given);

/// Vectors of the digests that a stage reads to choose pages, the scorer's own and not the partition's blocks; all 0 without.
struct Digests {
  std::int64_t page = 0;     ///< positions that one digest stands for
  std::int64_t vectors = 0;  ///< fp16 vectors of head_dim of one digest

  /// Of all pages, the last one included though it may not be full. Example: Quest, 2 vectors a page of 16: 40 positions, 6.
  [[nodiscard]] std::int64_t vectors_of(std::int64_t num_positions) const {
    return page == 0 ? 0 : ceil_div(num_positions, page) * vectors;
  }
};
/// @throws as resolved_parameters
[[nodiscard]] Digests digests_of(const Evict& stage);
/// Of the stage whose choice is made anew in every decode step, what is left out staying stored or in host memory; none: all 0.
[[nodiscard]] Digests digests_of_steps(const Compression& setting);

/// Scores a layer, the context's parameters completed.
/// @throws InputError  when the layer lacks what the scorer needs
[[nodiscard]] LayerScores score_layer(const ScorerEntry& entry, const LayerTensors& layer, ScorerContext context);

}  // namespace kvtide::kv
