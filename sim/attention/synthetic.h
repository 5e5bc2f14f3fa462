#pragma once
// Synthetic traces whose attention is known in closed form, for tests of policies and of the loss meter at any length.
//
// Every recorded query q at position p gives key j (j <= p) the logit of its kind:
//
//   uniform   0                                   -> a_j = 1 / (p + 1)
//   needle    strength D on `needle_length` keys  -> a_needle = n e^D / (n e^D + N - n), N = p + 1 visible keys
//   recency   D on the `sinks` first keys, else -ln 2 * (p - j) / half_life
//   ar1       x_j = phi x_(j-1) + sqrt(1 - phi^2) sigma e_j with e_j standard normal and x_0 = sigma e_0: importance of
//             standard deviation sigma that is forgotten over -1 / ln phi tokens
//   rope      D * mean over the chosen channel pairs i of cos((p - j) theta^(-2i/d)): depends on the distance only
//
// Example: needle, D = 10, N = 1000: e^10 / (e^10 + 999) = 22026.47 / 23025.47 = 0.956613.
//
// The logits live in channels that no noise touches. The other key channels are standard normal (zero in rope), the
// other query channels zero, all values standard normal. Query heads of a group are equal; KV heads and layers differ
// in their noise, and in x.

#include <cstdint>
#include <string>
#include <string_view>

#include "attention/trace.h"

namespace kvtide::attention {

struct SyntheticSpec {
  enum class Kind : std::uint8_t { uniform, needle, recency, ar1, rope };
  Kind kind = Kind::uniform;
  std::int64_t tokens = 4096;         ///< 2..1,048,576
  std::int64_t layers = 1;            ///< 1..1024
  std::int64_t query_heads = 1;       ///< a multiple of kv_heads, at most 1024
  std::int64_t kv_heads = 1;          ///< 1..1024
  std::int64_t head_dim = 64;         ///< even, 4..512
  std::int64_t question_tokens = 32;  ///< the last tokens, not part of the context; 1..tokens - 1
  std::int64_t queries = 96;          ///< the last positions have recorded queries; question_tokens..tokens
  std::uint64_t seed = 1;

  double strength = 10;            ///< D of needle (logit over the others), recency (sinks) and rope; |D| <= 100
  std::int64_t needle_start = -1;  ///< first token of the needle; -1: the middle of the context
  std::int64_t needle_length = 1;  ///< tokens, 1 or more, inside the context
  std::int64_t sinks = 4;          ///< recency: 0..tokens
  double half_life = 256;          ///< recency: tokens over which a weight halves, > 0
  double correlation = 0.95;       ///< ar1: phi, 0 <= phi < 1
  double deviation = 1.5;          ///< ar1: sigma of the logits, 0..20
  double theta = 10000;            ///< rope: frequency base, >= 1
  std::int64_t pair = -1;          ///< rope: the only channel pair used, 0..head_dim / 2 - 1; -1: all
};

[[nodiscard]] std::string_view to_string(SyntheticSpec::Kind kind);
/// @throws InputError that lists the kinds
[[nodiscard]] SyntheticSpec::Kind synthetic_kind(const std::string& name);

/// @throws InputError naming the parameter, what was found and what is allowed
[[nodiscard]] Trace make_synthetic(const SyntheticSpec& spec);

/// The logit of the table above (recency: up to a constant of the query, which softmax does not see; ar1: O(tokens) a
/// call).
/// @param query_position, position  0 <= position <= query_position < tokens
[[nodiscard]] double known_logit(const SyntheticSpec& spec, std::int64_t layer_index, std::int64_t kv_head,
                                 std::int64_t query_position, std::int64_t position);

}  // namespace kvtide::attention
