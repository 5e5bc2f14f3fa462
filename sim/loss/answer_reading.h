#pragma once
// Who reads the answer, and how much of that reading a compressed cache still allows.
//
// Two readings in series. The queries up to the one that predicts answer token i read the fact, and so learn which one
// is meant; that query then copies the token from its position. Query row r gives position j the full-cache attention a_rj. A few
// heads read strongly and decide; a head that spreads its attention carries little, so that heads count by a^p:
//   own_i      = sum over heads of the query of token i    a^p lost / sum a^p     at the token's own position
//   question_i = sum over heads and the queries up to it   a^p lost / sum a^p     over the fact's span
//   x_i        = 1 - (1 - own_i)(1 - question_i)           p = kReadingPower
// lost is 1 where the head's cache evicted the position, 0 where it holds it exactly. Queries that were run before
// anything was compressed lose nothing: all of the question but its last token when the cache is compressed behind it.
// Where a codec changed what a head sees, lost is the relative output error |o - ohat| / |o| of the token's own query, at
// most 1; the question's reading is left out.
// Approximation: what evictions do to the queries themselves, through earlier layers, is left out.
//
// Example: two heads read a digit with a = 0.64 and 0.04, so a^2 = 0.4096 and 0.0016. When the first loses it,
// own = 0.4096 / 0.4112 = 0.996; when the second does, 0.004. A question that lost half of its reading beside the latter:
// x = 1 - 0.996 * 0.5 = 0.502.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

/// The one constant of the reading: a head matters by how much it reads and by how much of what it carries is that.
/// Chosen between 1 and 2 on recorded scans of one 135M model (41 prompts, evictions).
inline constexpr double kReadingPower = 2;

/// Where an answer stands and which queries read it.
struct AnswerPlaces {
  std::vector<std::int64_t> sources;  ///< [answer token] where the context holds it
  kv::PositionRun fact;               ///< the words around it
  std::int64_t first_query = 0;       ///< predicts answer token 0; token i has the i-th query from it on
};

/// Sums over heads; one object per setting.
class AnswerReading {
 public:
  /// @param first_compressed_query  queries from this position on see the compressed cache
  AnswerReading(AnswerPlaces places, std::int64_t first_compressed_query);

  /// A KV head that only evicts. @param reference  measured with the question's queries and the answer's
  void add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted);
  /// A KV head under any codec. @param reference  measured with the answer's queries alone @param cache  with entries
  void add_cache(const HeadReference& reference, const kv::HeadCache& cache);

  [[nodiscard]] std::vector<double> lost_share() const;  ///< [answer token] x_i; 0 where no head reads it

 private:
  /// Answer token that the query at `position` predicts; sources.size() for a query before the first.
  [[nodiscard]] std::size_t token_of(std::int64_t position) const;

  struct Share {
    double lost = 0;
    double read = 0;
    [[nodiscard]] double value() const { return read > 0 ? lost / read : 0; }
  };

  AnswerPlaces places_;
  std::int64_t first_compressed_query_;
  std::vector<Share> own_;       ///< [answer token]
  std::vector<Share> question_;  ///< [answer token + 1] of the queries before token 0, then of each token's own query
};

}  // namespace kvtide::loss
