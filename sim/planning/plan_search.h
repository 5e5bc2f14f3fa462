#pragma once
// Every candidate of a plan judged, the best one, and what its choice hangs on.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planning/fleet_size.h"
#include "planning/kv_limit.h"
#include "planning/plan.h"
#include "planning/policy.h"
#include "planning/replica.h"
#include "planning/traffic.h"

namespace kvtide::planning {

struct Candidate {
  std::int64_t index = 0;
  std::string gpu;  ///< name of one of the plan's
  std::int64_t tensor_parallel = 1;
  std::int64_t max_num_seqs = 0;
  std::size_t policy = 0;  ///< index into PlanOutcome::policies

  bool is_feasible = false;
  std::string reason;         ///< why not
  std::int64_t needed = 0;    ///< replicas that the peak rate needs
  std::int64_t replicas = 0;  ///< with the spare ones
  std::int64_t num_gpus = 0;  ///< of all replicas
  double usd_per_hour = 0;    ///< NaN: no price
  double rate = 0;  ///< requests/s that the needed replicas carry; 0: not searched (goals cost, gpus: the best only)
  Experience experience;       ///< at the peak rate; goal rate: at `rate`
  std::int64_t kv_tokens = 0;  ///< of one replica
  std::int64_t longest_context = 0;
  bool is_exact = false;  ///< `needed` counted with every request on every replica, not by the busiest sample of one
  /// Nothing is at least as good in cost, p95 latency and worst loss (goal rate: and in rate), and better in one.
  bool is_on_front = false;
};

struct PlanOutcome {
  Traffic traffic;
  std::int64_t trace_requests = 0;
  std::vector<Policy> policies;
  std::vector<Candidate> candidates;  ///< in the order of the file: GPU, ranks, policy, batch limit
  std::int64_t best = -1;
  KvLimit kv_limit;
  double wanted_rate = 0;  ///< in the peak hour
};

/// What a plan's time goes into, in this order.
enum class SearchPart : std::uint8_t {
  judging,   ///< candidates, by a sample of their requests
  settling,  ///< candidates that could be the choice, with every request
  varying    ///< the contenders in each changed world (sensitivity.h)
};

struct SearchOptions {
  std::int64_t jobs = 1;
  /// Told as a part goes on, one call at a time.
  std::function<void(SearchPart part, std::int64_t done, std::int64_t total)> on_progress{};
  std::string build{};  ///< of this program: decides the result as well
  /// Asked before a candidate is judged, told after; one call at a time. `key`: of everything that decides the result.
  std::function<bool(std::uint64_t key, Candidate& candidate)> restore{};
  std::function<void(std::uint64_t key, const Candidate& candidate)> on_judged{};
};

/// @throws InputError  what is wrong with the plan's sections whatever the candidate
[[nodiscard]] PlanOutcome search(const Plan& plan, const SearchOptions& options);

/// Fills in what the candidate needs, costs and gives, or why it is not possible.
/// @param replica  the candidate's  @param wanted_rate  requests/s in the peak hour
void judge(Candidate& candidate, Replica& replica, const Plan& plan, const Traffic& traffic, double wanted_rate,
           Scope scope = Scope::sample);

/// Makes a candidate's engine. May be called by several threads. @throws InputError
using MakeReplica = std::function<std::unique_ptr<Replica>(const Candidate&)>;

/// Counts the replicas, or the rate, of every candidate that could be the best one with every request on every replica; then chooses. The
/// same among the candidates without compression, for what compression saves.
void settle_choice(const Plan& plan, PlanOutcome& outcome, const MakeReplica& make, const SearchOptions& options);

/// a is the better choice for the goal; ties go to less loss, then to the one that comes first.
[[nodiscard]] bool is_better(const Plan& plan, const PlanOutcome& outcome, const Candidate& a, const Candidate& b);

/// Sets is_on_front of the feasible candidates. Only where the goal is the rate is it known of all of them.
void mark_front(const Plan& plan, PlanOutcome& outcome);

}  // namespace kvtide::planning
