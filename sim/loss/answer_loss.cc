#include "loss/answer_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kvtide::loss {
namespace {

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

AnswerLoss answer_loss(const std::vector<double>& margins, const std::vector<double>& lost_share, int num_choices) {
  KVTIDE_ASSERT(margins.size() == lost_share.size() && num_choices >= 2, "one share a margin, a choice to guess from");
  const double guess = -std::log(static_cast<double>(num_choices - 1));
  AnswerLoss result;
  result.weakest_margin = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < margins.size(); ++i) {
    const double left = margins[i] + (guess - margins[i]) * lost_share[i];
    result.margins.push_back(left);
    result.loss += softplus(-left) - softplus(-margins[i]);
    result.weakest_margin = std::min(result.weakest_margin, left);
  }
  return result;
}

}  // namespace kvtide::loss
