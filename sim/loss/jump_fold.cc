#include "loss/jump_fold.h"

#include <cmath>

namespace kvtide::loss {

std::vector<double> fold_jumps(const std::vector<std::vector<double>>& profiles, std::int64_t period,
                               std::int64_t grid_offset) {
  std::vector<double> shares(static_cast<std::size_t>(period), 0.0);
  double sum = 0;
  for (const std::vector<double>& profile : profiles) {
    for (std::size_t position = 1; position < profile.size(); ++position) {
      const double jump = std::abs(profile[position] - profile[position - 1]);
      shares[static_cast<std::size_t>((static_cast<std::int64_t>(position) + grid_offset) % period)] += jump;
      sum += jump;
    }
  }
  if (sum > 0) {
    for (double& share : shares) share /= sum;
  }
  return shares;
}

}  // namespace kvtide::loss
