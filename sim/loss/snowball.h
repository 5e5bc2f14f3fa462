#pragma once
// Generation builds on its own tokens: an estimate of where a compressed cache first leaves the path of the full one, from
// what a trace holds: the full cache's probability of each answer token and the share of the attention on its source that
// is kept, by the heads that read it.
//
// A token whose source is kept with share k is right with p' = k p + (1 - k) / choices: it is copied with its old
// probability, or guessed. Lost digits then cost ln(choices p) nats each: 2.3 with ten digits and p near 1 (a 135M model
// loses 2.5 to 2.6). Steps multiply as long as every earlier token was right.
//
// Example: p = 1, k = 1, 1, 0, 0 and ten choices: p' = 1, 1, 0.1, 0.1; the path survives four steps with 0.01; the
// first divergence is expected at step 2.1 (1 + 1 + 0.1 + 0.01 = 2.11 right tokens), log-probability -4.6.
//
// What it cannot know: whether a wrong token is repaired later, and what the model does when a source is kept in half of
// its readers. is_trusted says so: false where some k lies in 0.2..0.8, and for every step behind a survival below 1/2
// only the teacher-forced figure (every earlier token given) means anything.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

struct Snowball {
  std::vector<double> token_probability;  ///< [step] p', every earlier token given (teacher-forced)
  std::vector<double> survival;           ///< [step] that no token up to this one was wrong (free-running)
  double log_probability = 0;             ///< teacher-forced, of all tokens, nats
  double expected_right_tokens = 0;       ///< before the first wrong one
  bool is_trusted = true;
};

/// @param full_probability  [step] of the right token with the full cache, in [0, 1]
/// @param kept              [step] share of the attention on the token's source that is kept, in [0, 1]
/// @param choices           tokens a guess would choose among, >= 1
[[nodiscard]] Snowball estimate_snowball(std::span<const double> full_probability, std::span<const double> kept,
                                         double choices);

/// The same where each token's own probability is known, earlier ones given (answer_loss.h).
/// @param token_probability  [step] p'
/// @param kept               [step] as above; decides is_trusted only
[[nodiscard]] Snowball follow_path(std::span<const double> token_probability, std::span<const double> kept);

}  // namespace kvtide::loss
