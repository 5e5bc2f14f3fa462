#include "planning/fleet_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvtide::planning {
namespace {

constexpr double kRateTolerance = 0.02;
constexpr double kRateStep = 1.15;
constexpr int kMostSteps = 40;  // down to a 268th

/// Why no number of replicas helps; empty when a request alone is fast enough, or may find beside others what it does not find alone.
std::string too_slow_alone(Replica& replica, const Traffic& traffic, const Plan& plan) {
  if (replica.has_hits(traffic)) return "";
  const Experience alone = replica.serve_alone(traffic, plan.objectives);
  return alone.is_good() ? "" : fmt::format("{} with every request alone on its replica", alone.broken);
}

}  // namespace

FleetSize replicas_for(Replica& replica, const Traffic& traffic, const Plan& plan, double rate, std::int64_t fit,
                       std::int64_t most) {
  const double bound = replica.rate_bound(traffic);
  // A request's worth of slack: a sample's rate is that of its gaps.
  const auto fewest = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(rate / bound - 1e-9)));
  FleetSize size;
  if (fewest > fit) {
    size.reason =
        fmt::format("{:.3g} requests/s need at least {} replicas of at most {:.3g} each (closed form), {} fit", rate,
                    fewest, bound, fit);
    return size;
  }
  const auto at = [&](std::int64_t replicas) {
    return replica.serve(replica_share(traffic, rate, replicas, plan.sample_requests), plan.objectives);
  };
  std::int64_t enough = fewest;
  Experience experience = at(enough);
  if (!experience.is_good()) {
    size.reason = too_slow_alone(replica, traffic, plan);
    if (!size.reason.empty()) return size;
    std::int64_t too_few = fewest;
    for (std::int64_t step = 1; !experience.is_good(); step *= 2) {
      if (enough == most) {
        size.reason = fmt::format("{} on the {} replicas that fit", experience.broken, fit);
        return size;
      }
      too_few = enough;
      enough = std::min(most, enough + step);
      experience = at(enough);
    }
    while (enough - too_few > 1) {
      const std::int64_t middle = too_few + (enough - too_few) / 2;
      const Experience there = at(middle);
      if (there.is_good()) {
        enough = middle;
        experience = there;
      } else {
        too_few = middle;
      }
    }
  }
  size.replicas = enough;
  size.experience = experience;
  return size;
}

FleetSize exact_replicas(Replica& replica, const Traffic& traffic, const Plan& plan, double rate, std::int64_t start,
                         std::int64_t worthwhile, std::int64_t most) {
  FleetSize size;
  const auto at = [&](std::int64_t replicas) { return replica.serve_all(traffic, rate, replicas, plan.objectives); };
  // A trace ends, and with it the queue of replicas that could never keep up: fewer than the closed form's never do.
  const auto fewest = static_cast<std::int64_t>(std::ceil(rate / replica.rate_bound(traffic) - 1e-9));
  const std::int64_t floor = std::max<std::int64_t>(1, fewest);
  if (floor > std::min(worthwhile, most)) return size;
  std::int64_t enough = std::clamp(start, floor, std::min(worthwhile, most));
  Experience experience = at(enough);
  if (experience.is_good()) {
    while (enough > floor) {
      Experience fewer = at(enough - 1);
      if (!fewer.is_good()) break;
      --enough;
      experience = std::move(fewer);
    }
  } else {
    while (!experience.is_good()) {
      if (enough == std::min(most, worthwhile)) {
        size.reason = fmt::format("{} on {} replicas", experience.broken, enough);
        return size;
      }
      experience = at(++enough);
    }
  }
  size.replicas = enough;
  size.experience = experience;
  return size;
}

CarriedRate rate_carried(Replica& replica, const Traffic& traffic, const Plan& plan, std::int64_t replicas,
                         double start, Scope scope) {
  CarriedRate carried;
  carried.reason = too_slow_alone(replica, traffic, plan);
  if (!carried.reason.empty()) return carried;
  double low = 0, high = 0;
  const auto is_good = [&](double rate) {
    const Experience there =
        scope == Scope::everything
            ? replica.serve_all(traffic, rate, replicas, plan.objectives)
            : replica.serve(replica_share(traffic, rate, replicas, plan.sample_requests), plan.objectives);
    if (there.is_good()) {
      low = rate;
      carried.experience = there;
    } else {
      high = rate;
      carried.reason = there.broken;
    }
    return there.is_good();
  };
  const double most = replica.rate_bound(traffic) * static_cast<double>(replicas);
  // In small steps to the first rate that fails (or, downwards, that does not): a burst may fail where twice its rate passes.
  const auto search = [&] {
    double rate = std::min(start, most);
    if (is_good(rate)) {
      while (high == 0 && rate < most) is_good(rate = std::min(most, rate * kRateStep));
    } else {
      for (int step = 0; step < kMostSteps && low == 0; ++step) is_good(rate /= kRateStep);
    }
    while (low > 0 && high > 0 && high - low > kRateTolerance * high) is_good((low + high) / 2);
  };
  search();
  if (low == 0 && scope == Scope::sample) {  // of one replica, whose share may be unlike the others'
    scope = Scope::everything;
    high = 0;
    search();
  }
  carried.rate = low;
  carried.scope = scope;
  if (low > 0) carried.reason.clear();
  return carried;
}

}  // namespace kvtide::planning
