#pragma once
// Who reads the answer, and how much of that reading a compressed cache still allows.
//
// Three readings in series. The queries up to the one that predicts answer token i read the fact, and so learn which one
// is meant. That query then finds its place: heads of early layers look at the token in front of the answer's (the same
// token as the one just said). At last it copies: heads of later layers read the answer's own position. Query row r gives
// position j the full-cache attention a_rj and takes a_rj |v_j| from it:
//   question_i = sum over heads and the queries before it   a^2 kept / sum a^2          over the fact's span
//   found_l    = 1 - product over the heads below layer l   (1 - a^2 kept)              at the token in front
//   own_i      = sum over heads of the query of token i     (a |v|)^2 kept rho / sum (a |v|)^2   at the token's own place
//   rho        = 1 / (a + (1 - a) exp(kMatchLogits (found_l with everything kept - found_l)))
//   x_i        = 1 - (own_i question_i)^kReadingGain
// kept is 0 where the head's cache evicted the position, 1 where it holds it exactly. Finders stand in for each other,
// and what is not found takes from the score of the place to copy from, so that a head that is sure of it (a near 1)
// hardly cares. Copiers count by the energy they carry. Queries that were run before anything was compressed lose
// nothing: all of the question but its last token when the cache is compressed behind it.
// Where a codec changed what a head sees, every reading of a query row loses what noise takes from a signal, the share
// |o - ohat|^2 / |o|^2 of its output's energy, at most 1, wherever it reads.
// Approximation: evictions reach the queries only through found_l; what else earlier layers lost is left out.
//
// Example: two copiers of one layer read a digit with a |v| = 0.64 and 0.04, so 0.4096 and 0.0016. When the first loses
// it, own = 0.0016 / 0.4112 = 0.004; when the second does, 0.996. One finder below them with a = 0.8 at the token in
// front, lost: found falls by 0.64, the score by 1.5 * 0.64 = 0.96, and a copier with a = 0.9 keeps
// rho = 1 / (0.9 + 0.1 e^0.96) = 0.861, one with a = 0.3 only 0.472.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

/// The three constants of the reading, chosen on half of the recorded prompts of one 135M model (93 of 185, by a hash of
/// their names): a head matters by how much it reads and by how much of what it carries is that.
inline constexpr double kReadingPower = 2;
/// Score, in nats, that finding the place adds to it.
inline constexpr double kMatchLogits = 1.5;
/// A margin falls a little faster than the reading: what is left is also read less surely.
inline constexpr double kReadingGain = 1.25;

/// Where an answer stands and which queries read it.
struct AnswerPlaces {
  std::vector<std::int64_t> sources;  ///< [answer token] where the context holds it
  kv::PositionRun fact;               ///< the words around it
  std::int64_t first_query = 0;       ///< predicts answer token 0; token i has the i-th query from it on
};

/// Sums over heads, layer by layer from the first; one object per setting.
class AnswerReading {
 public:
  /// @param first_compressed_query  queries from this position on see the compressed cache
  AnswerReading(AnswerPlaces places, std::int64_t first_compressed_query);

  /// A KV head that only evicts. @param reference  measured with the question's queries and the answer's
  void add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted);
  /// A KV head under any codec. @param reference  measured with the question's queries and the answer's
  /// @param cache  with entries
  void add_cache(const HeadReference& reference, const kv::HeadCache& cache);
  /// What this layer's heads found is there for the next layer's.
  void end_layer();

  [[nodiscard]] std::vector<double> lost_share() const;  ///< [answer token] x_i; 0 where no head reads it
  /// [layer] lost share of what the layer's copiers carry, all answer tokens together
  [[nodiscard]] const std::vector<double>& lost_by_layer() const { return lost_by_layer_; }
  /// [layer] what they carry, as a share of all layers; sums to 1 where anything is read
  [[nodiscard]] std::vector<double> carried_by_layer() const;

 private:
  /// Answer token that the query at `position` predicts; sources.size() for a query before the first.
  [[nodiscard]] std::size_t token_of(std::int64_t position) const;

  /// @param lost_at  position -> share 0..1 of what the row reads there that the compressed cache lost
  template <typename LostAt>
  void add_row(const HeadReference& reference, std::int64_t row, const LostAt& lost_at);

  void add_copied(std::size_t token, double carried, double lost);

  struct Share {
    double lost = 0;
    double read = 0;
    [[nodiscard]] double value() const { return read > 0 ? lost / read : 0; }
  };
  /// Products over heads of 1 - a^2: what no head found, of the full cache and of the compressed one.
  struct Missed {
    double full = 1;
    double compressed = 1;
  };

  AnswerPlaces places_;
  std::int64_t first_compressed_query_;
  std::vector<Share> own_;        ///< [answer token]
  std::vector<Share> question_;   ///< [answer token + 1] of the queries before token 0, then of each token's own query
  std::vector<Missed> missed_;    ///< [answer token] by the layers below
  std::vector<Missed> of_layer_;  ///< [answer token] by the heads of this layer so far
  Share copied_;                  ///< by the heads of this layer so far, all answer tokens
  std::vector<double> lost_by_layer_;
  std::vector<double> energy_by_layer_;
};

}  // namespace kvtide::loss
