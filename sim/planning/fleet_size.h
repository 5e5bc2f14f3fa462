#pragma once
// How many replicas a rate needs, and how much a number of replicas carries, found by replaying what one replica serves.
//
// More replicas never make anybody slower, and more traffic never faster: both searches bisect. While candidates are compared, the
// busiest sample of the first replica stands for all (Scope::sample): that may be too many by one to three where bursts
// decide, or one too few. What may be chosen is then counted with every request on every replica (Scope::everything).

#include <cstdint>
#include <string>

#include "planning/plan.h"
#include "planning/replica.h"
#include "planning/traffic.h"

namespace kvtide::planning {

enum class Scope : std::uint8_t { sample, everything };

struct FleetSize {
  std::int64_t replicas = 0;  ///< 0: no number within the limit keeps the objectives
  Experience experience;      ///< of those replicas
  std::string reason;         ///< where there is no number
};

/// @param rate  requests/s over all replicas  @param fit  replicas at most, >= 1
/// @param most  searched, >= fit: the sample may ask for more than fit where fewer do
[[nodiscard]] FleetSize replicas_for(Replica& replica, const Traffic& traffic, const Plan& plan, double rate,
                                     std::int64_t fit, std::int64_t most);

/// The same with every request, from a number nearby: upwards while an objective is broken, else downwards while none is, never below the
/// closed form.
/// @param start  >= 1, at most `most`  @param worthwhile  more replicas than that are of no interest: no answer then
[[nodiscard]] FleetSize exact_replicas(Replica& replica, const Traffic& traffic, const Plan& plan, double rate,
                                       std::int64_t start, std::int64_t worthwhile, std::int64_t most);

struct CarriedRate {
  double rate = 0;  ///< requests/s, within 2 % below the limit; 0: not even a request alone keeps the objectives
  Experience experience;
  std::string reason;
  Scope scope = Scope::sample;  ///< of the replays that found it
};

/// The rate up to which `replicas` keep the objectives, searched from `start` requests/s on; with every request where the sample fails at
/// every rate.
[[nodiscard]] CarriedRate rate_carried(Replica& replica, const Traffic& traffic, const Plan& plan,
                                       std::int64_t replicas, double start, Scope scope = Scope::sample);

}  // namespace kvtide::planning
