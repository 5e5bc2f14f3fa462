#pragma once
// How many replicas a rate needs, and how much a number of replicas carries, found by replaying what one replica serves.
//
// More replicas never make anybody slower, and more traffic never faster: both searches bisect. The first replica stands for all.

#include <cstdint>
#include <string>

#include "planning/plan.h"
#include "planning/replica.h"
#include "planning/traffic.h"

namespace kvtide::planning {

struct FleetSize {
  std::int64_t replicas = 0;  ///< 0: no number within the limit keeps the objectives
  Experience experience;      ///< of those replicas
  std::string reason;         ///< where there is no number
};

/// @param rate  requests/s over all replicas  @param most  replicas at most, >= 1
[[nodiscard]] FleetSize replicas_for(Replica& replica, const Traffic& traffic, const Plan& plan, double rate,
                                     std::int64_t most);

struct CarriedRate {
  double rate = 0;  ///< requests/s, within 2 % below the limit; 0: not even a request alone keeps the objectives
  Experience experience;
  std::string reason;
};

/// The rate up to which `replicas` keep the objectives, searched from `start` requests/s on.
[[nodiscard]] CarriedRate rate_carried(Replica& replica, const Traffic& traffic, const Plan& plan,
                                       std::int64_t replicas, double start);

}  // namespace kvtide::planning
