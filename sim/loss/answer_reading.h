#pragma once
// Who reads the answer, and how much of that reading a compressed cache still allows.
//
// Answer token i is copied from a position of the context. Query head h reads it there with attention a_hi of the query
// that predicts it (full cache). A few heads read it strongly and decide; a head that spreads its attention carries
// little of it, so that heads count by a_hi to a power above 1:
//   x_i = sum_h a_hi^p lost_hi / sum_h a_hi^p        p = kReadingPower
// lost_hi is 1 where h's cache evicted the token's position, 0 where it holds it exactly; where a codec changed what the
// head sees, it is the head's relative output error |o - ohat| / |o|, at most 1.
// Approximation: what evictions do to the queries themselves, through earlier layers, is left out.
//
// Example: two heads read a digit with a = 0.64 and 0.04, so a^1.5 = 0.512 and 0.008. When the first loses it,
// x = 0.512 / 0.520 = 0.985; when the second does, 0.015.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

/// The one constant of the reading: chosen between 1 and 2 on the recorded scans of one 135M model, where 1 ranks losses
/// best and 2 ranks failures best.
inline constexpr double kReadingPower = 1.5;

/// Sums over heads; one object per setting.
class AnswerReading {
 public:
  /// @param positions  [answer token] where the context holds it
  explicit AnswerReading(std::vector<std::int64_t> positions);

  /// A KV head that only evicts. @param reference  measured with the answer's queries alone, one a token
  void add_evicted(const HeadReference& reference, const kv::PositionRuns& evicted);
  /// A KV head under any codec. @param cache  with entries
  void add_cache(const HeadReference& reference, const kv::HeadCache& cache);

  [[nodiscard]] std::vector<double> lost_share() const;  ///< [answer token] x_i; 0 where no head reads it

 private:
  [[nodiscard]] double strength(const HeadReference& reference, std::int64_t row) const;

  std::vector<std::int64_t> positions_;
  std::vector<double> lost_;
  std::vector<double> read_;
};

}  // namespace kvtide::loss
