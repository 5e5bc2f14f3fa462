#pragma once
// What an answer loses when some of its tokens can no longer be read from the context.
//
// Answer token i is chosen by a margin m_i: its logit minus the log-sum-exp of all others, so that its full-cache
// log-probability is -softplus(-m_i). The part x_i of its reading that is lost takes the margin to that of a guess among
// equals, ln(1/9) for a decimal digit:
//   m'_i = m_i - (m_i + ln 9) x_i        loss = sum_i softplus(-m'_i) - softplus(-m_i)
// Approximation: the margin falls in proportion to what is lost, and the answer's tokens fall independently.
//
// Example: m = 3, x = 1: m' = -2.197, loss = 2.303 - 0.049 = 2.25 nats; four such digits lose 9.0. x = 1/2: m' = 0.401,
// loss = 0.513 - 0.049 = 0.46.

#include <vector>

namespace kvtide::loss {

struct AnswerLoss {
  std::vector<double> margins;  ///< [answer token] m'_i; 1 / (1 + exp(-m'_i)) is its probability, earlier ones given
  double loss = 0;              ///< drop of the answer's log-probability, nats, >= 0 for margins above -ln(choices - 1)
  double weakest_margin = 0;    ///< the smallest m'_i: a greedy answer fails at its weakest token, whatever the sum is
};

/// @param margins      [answer token] m_i, full cache
/// @param lost_share   [answer token] x_i in 0..1
/// @param num_choices  equals a guess chooses among, >= 2; 10 for digits
[[nodiscard]] AnswerLoss answer_loss(const std::vector<double>& margins, const std::vector<double>& lost_share,
                                     int num_choices = 10);

}  // namespace kvtide::loss
