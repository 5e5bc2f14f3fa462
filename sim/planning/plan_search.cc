#include "planning/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>

#include "base/error.h"
#include "base/random.h"
#include "planning/in_parallel.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kMostReplicas = 4096;
constexpr std::size_t kSettledAtOnce = 4;  // whatever the threads: what is settled must not hang on them

/// Of one candidate. @return below 1: the plan's GPUs do not suffice
std::int64_t most_replicas(const Plan& plan, const Candidate& candidate) {
  return plan.num_gpus > 0 ? plan.num_gpus / candidate.tensor_parallel - plan.spare : kMostReplicas;
}

void set_fleet(Candidate& candidate, const Plan& plan) {
  candidate.is_feasible = candidate.needed > 0;
  if (!candidate.is_feasible) return;
  candidate.replicas = candidate.needed + plan.spare;
  candidate.num_gpus = candidate.replicas * candidate.tensor_parallel;
  const std::optional<GpuPrice> price = plan.prices.find(candidate.gpu);
  candidate.usd_per_hour = price ? price->usd_per_hour * static_cast<double>(candidate.num_gpus) : std::nan("");
}

}  // namespace

void judge(Candidate& candidate, Replica& replica, const Plan& plan, const Traffic& traffic, double wanted_rate,
           Scope scope) {
  candidate.kv_tokens = replica.kv_tokens();
  candidate.longest_context = replica.longest_context();
  const std::int64_t most = most_replicas(plan, candidate);
  if (most < 1) {
    candidate.reason =
        fmt::format("needs {} GPUs, {} given", (1 + plan.spare) * candidate.tensor_parallel, plan.num_gpus);
    return;
  }
  if (plan.goal == Goal::rate) {
    const CarriedRate carried =
        rate_carried(replica, traffic, plan, most, replica.rate_bound(traffic) * static_cast<double>(most) / 2, scope);
    scope = carried.scope;
    candidate.reason = carried.reason;
    candidate.rate = carried.rate;
    candidate.needed = carried.rate > 0 ? most : 0;
    candidate.experience = carried.experience;
  } else {
    FleetSize size =
        replicas_for(replica, traffic, plan, wanted_rate, most, std::min(most + most / 4 + 3, kMostReplicas));
    if (size.replicas > 0 && scope == Scope::everything) {
      size = exact_replicas(replica, traffic, plan, wanted_rate, std::min(size.replicas, most), most, most);
    }
    candidate.reason = size.reason;
    candidate.needed = size.replicas;
    candidate.experience = size.experience;
  }
  candidate.is_exact = scope == Scope::everything;
  set_fleet(candidate, plan);
}

bool is_better(const Plan& plan, const PlanOutcome& outcome, const Candidate& a, const Candidate& b) {
  const auto rank = [&](const Candidate& one) {
    const double value = plan.goal == Goal::rate   ? -one.rate
                         : plan.goal == Goal::cost ? one.usd_per_hour
                                                   : static_cast<double>(one.num_gpus);
    return std::tuple(!one.is_feasible, value, outcome.policies[one.policy].loss_worst, one.experience.latency.p95,
                      one.index);
  };
  return rank(a) < rank(b);
}

void mark_front(const Plan& plan, PlanOutcome& outcome) {
  // Dollars are compared with dollars: where one price is not known, all are counted in GPUs.
  const bool is_priced = std::ranges::none_of(
      outcome.candidates, [](const Candidate& one) { return one.is_feasible && std::isnan(one.usd_per_hour); });
  const auto figures = [&](const Candidate& one) {
    return std::array{is_priced ? one.usd_per_hour : static_cast<double>(one.num_gpus), one.experience.latency.p95,
                      outcome.policies[one.policy].loss_worst, plan.goal == Goal::rate ? -one.rate : 0.0};
  };
  for (Candidate& one : outcome.candidates) {
    if (!one.is_feasible) continue;
    const auto own = figures(one);
    one.is_on_front = std::ranges::none_of(outcome.candidates, [&](const Candidate& other) {
      if (!other.is_feasible || other.index == one.index) return false;
      const auto its = figures(other);
      bool is_no_worse = true;
      for (std::size_t i = 0; i < own.size(); ++i) is_no_worse &= its[i] <= own[i];
      return is_no_worse && (its != own || other.index < one.index);
    });
  }
}

namespace {

/// So many replicas of it as cost no more than the best candidate so far, spare ones left out.
std::int64_t worthwhile_replicas(const Plan& plan, const Candidate& one, const Candidate* best) {
  if (best == nullptr) return kMostReplicas;
  const bool is_priced = plan.goal == Goal::cost;
  const double each =
      is_priced ? one.usd_per_hour / static_cast<double>(one.replicas) : static_cast<double>(one.tensor_parallel);
  const double limit = is_priced ? best->usd_per_hour : static_cast<double>(best->num_gpus);
  // What costs nothing is worth it in any number; of what costs something beside what does not, none is.
  if (!(each > 0)) return kMostReplicas;
  const double count = std::floor(limit / each * (1 + 1e-9));
  return static_cast<std::int64_t>(std::min(count, static_cast<double>(kMostReplicas))) - plan.spare;
}

/// Goal rate: the rate of its replicas with every request on each. Ruled out, and no more than the best's rate: who breaks an objective
/// there, or carries less than half of it as sampled.
void settle_rate(const Plan& plan, const Traffic& traffic, const MakeReplica& make, const Candidate* best,
                 Candidate& one) {
  if (best != nullptr && one.rate < best->rate / 2) return;
  const std::unique_ptr<Replica> replica = make(one);
  if (best != nullptr && (replica->rate_bound(traffic) * static_cast<double>(one.needed) < best->rate ||
                          !replica->serve_all(traffic, best->rate, one.needed, plan.objectives).is_good())) {
    one.rate = std::min(one.rate, best->rate);
    return;
  }
  const double start = best != nullptr ? best->rate : one.rate;
  const CarriedRate carried = rate_carried(*replica, traffic, plan, one.needed, start, Scope::everything);
  if (carried.rate <= 0) return;
  one.rate = carried.rate;
  one.experience = carried.experience;
  one.is_exact = true;
}

/// Other goals: its replicas, counted with every request on each.
void settle_replicas(const Plan& plan, const PlanOutcome& outcome, const MakeReplica& make, const Candidate* best,
                     Candidate& one) {
  const std::int64_t worthwhile = worthwhile_replicas(plan, one, best);
  if (worthwhile < 1 || worthwhile < one.needed / 2) return;
  const std::unique_ptr<Replica> replica = make(one);
  const std::int64_t most = most_replicas(plan, one);
  const auto count = [&](std::int64_t start, std::int64_t limit) {
    return exact_replicas(*replica, outcome.traffic, plan, outcome.wanted_rate, std::min(start, most), limit, most);
  };
  FleetSize size = count(one.needed, worthwhile);
  if (size.replicas == 0 && worthwhile < most) {
    if (worthwhile < std::min(one.needed, most)) return;  // dearer than the best, however much
    size = count(worthwhile + 1, kMostReplicas);          // dearer, not impossible
  }
  if (size.replicas == 0) one.reason = size.reason;
  one.needed = size.replicas;
  one.experience = std::move(size.experience);
  one.is_exact = true;
  set_fleet(one, plan);
}

/// Settles whatever could be the best. @return it; null where none keeps the objectives
Candidate* settled_best(const Plan& plan, const PlanOutcome& outcome, const MakeReplica& make,
                        const SearchOptions& options, std::vector<Candidate*> ranked) {
  std::ranges::sort(ranked, [&](const Candidate* a, const Candidate* b) { return is_better(plan, outcome, *a, *b); });
  Candidate* best = nullptr;
  for (std::size_t first = 0; first < ranked.size(); first += kSettledAtOnce) {
    const std::size_t wave = std::min(kSettledAtOnce, ranked.size() - first);
    in_parallel(wave, options.jobs, [&](std::size_t i) {
      Candidate& one = *ranked[first + i];
      if (one.is_exact) return;
      try {
        if (plan.goal == Goal::rate) {
          settle_rate(plan, outcome.traffic, make, best, one);
        } else {
          settle_replicas(plan, outcome, make, best, one);
        }
      } catch (const InputError& error) {  // of this candidate: the others stay possible
        one.reason = error.what();
        one.needed = 0;
        set_fleet(one, plan);
      }
    });
    if (options.on_progress)
      options.on_progress(SearchPart::settling, static_cast<std::int64_t>(first + wave),
                          static_cast<std::int64_t>(ranked.size()));
    for (std::size_t i = first; i < first + wave; ++i) {
      Candidate* one = ranked[i];
      if (one->is_exact && one->is_feasible && (best == nullptr || is_better(plan, outcome, *one, *best))) best = one;
    }
  }
  return best;
}

}  // namespace

void settle_choice(const Plan& plan, PlanOutcome& outcome, const MakeReplica& make, const SearchOptions& options) {
  std::vector<Candidate*> all, uncompressed;
  for (Candidate& one : outcome.candidates) {
    if (one.is_feasible) all.push_back(&one);
  }
  Candidate* const best = settled_best(plan, outcome, make, options, all);
  // What compression saves is told against the best without it.
  for (Candidate* one : all) {
    if (one->is_feasible && outcome.policies[one->policy].loses_nothing()) uncompressed.push_back(one);
  }
  settled_best(plan, outcome, make, {.jobs = options.jobs}, uncompressed);
  for (Candidate* one : all) {
    const std::int64_t most = most_replicas(plan, *one);
    if (one->is_exact || one->needed <= most) continue;
    one->reason = fmt::format("about {} replicas, {} fit", one->needed, most);
    one->is_feasible = false;
  }
  if (best == nullptr) return;
  outcome.best = best->index;
  if (plan.goal != Goal::rate) {
    const std::unique_ptr<Replica> replica = make(*best);
    best->rate =
        rate_carried(*replica, outcome.traffic, plan, best->needed, outcome.wanted_rate, Scope::everything).rate;
  }
}

namespace {

/// @throws InputError  what is wrong with the requests, under the name of their file, else of the plan
Traffic traffic_of(const Plan& plan, const experiment::Run& shared, const Model& model) {
  try {
    return load_traffic(*shared.setting.serving, model, shared.setting.seed);
  } catch (const InputError& error) {
    const std::string& file = shared.setting.serving->requests;
    if (!file.empty() && std::string(error.what()).find(file) != std::string::npos) throw;
    throw InputError(fmt::format("{}: {}", plan.path, error.what()));
  }
}

/// Every combination, nothing judged yet.
std::vector<Candidate> candidates_of(const Plan& plan) {
  std::vector<Candidate> candidates;
  for (const GpuType& gpu : plan.gpus) {
    for (const std::int64_t ranks : plan.tensor_parallel) {
      for (std::size_t policy = 0; policy < plan.policies.size(); ++policy) {
        for (const std::int64_t batch : plan.max_num_seqs) {
          Candidate& one = candidates.emplace_back();
          one.index = std::ssize(candidates) - 1;
          one.gpu = gpu.name;
          one.tensor_parallel = ranks;
          one.max_num_seqs = batch;
          one.policy = policy;
          one.usd_per_hour = std::nan("");
        }
      }
    }
  }
  return candidates;
}

/// What the engines of all candidates are made of.
struct EngineParts {
  const Plan& plan;
  Model model;
  std::map<std::string, gpu::Gpu> gpus = {};  ///< by the plan's name of the type

  [[nodiscard]] std::unique_ptr<Replica> replica_of(const experiment::Run& run, const Candidate& one,
                                                    const PlanOutcome& outcome) {
    return std::make_unique<Replica>(run, outcome.policies[one.policy], model, gpus.at(one.gpu),
                                     outcome.traffic.longest, plan.calibration);
  }
};

experiment::Run run_of(const Plan& plan, const PolicyChoice& choice, const Candidate& one) {
  experiment::Run run = run_of(plan, choice, one.gpu, one.tensor_parallel);
  run.setting.serving->max_num_seqs = one.max_num_seqs;
  return run;
}

/// The caller's functions, one call at a time.
class Listener {
 public:
  Listener(const SearchOptions& options, std::int64_t total) : options_(options), total_(total) {}
  bool restore(std::uint64_t key, Candidate& one) {
    const std::lock_guard lock(mutex_);
    return options_.restore && options_.restore(key, one);
  }
  /// @param key  0: it has none, and is told to nobody
  void on_judged(std::uint64_t key, bool is_known, const Candidate& one) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (options_.on_judged && !is_known && key != 0) options_.on_judged(key, one);
    if (options_.on_progress) options_.on_progress(SearchPart::judging, done_, total_);
  }

 private:
  const SearchOptions& options_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

/// Candidates that differ in the batch limit alone: they share one engine's step times.
void judge_group(std::span<Candidate> group, EngineParts& parts, const SearchOptions& options,
                 const PlanOutcome& outcome, Listener& listener) {
  const Plan& plan = parts.plan;
  std::optional<experiment::Run> run;
  std::unique_ptr<Replica> replica;
  for (Candidate& one : group) {
    std::uint64_t key = 0;
    bool is_known = false;
    try {
      const std::string& refusal = outcome.policies[one.policy].refusal;
      if (!refusal.empty()) throw InputError(refusal);
      if (!run) run = run_of(plan, plan.policies[one.policy], one);
      key = fnv1a64(fmt::format("{:x} {} {}\n{}\n{}\n{}", run->key, one.index, one.max_num_seqs, options.build,
                                plan.yaml, plan.overrides));
      is_known = listener.restore(key, one);
      if (!is_known) {
        run->setting.serving->max_num_seqs = one.max_num_seqs;
        if (replica) {
          replica->set_max_num_seqs(one.max_num_seqs);
        } else {
          replica = parts.replica_of(*run, one, outcome);
        }
        judge(one, *replica, plan, outcome.traffic, outcome.wanted_rate);
      }
    } catch (const InputError& error) {
      one.reason = error.what();
    }
    listener.on_judged(key, is_known, one);
  }
}

/// Of the fleet chosen, without compression; where that cannot be, of the one to buy without it.
KvLimit limit_of_choice(EngineParts& parts, const PolicyChoice& plain, const Policy& uncompressed,
                        const PlanOutcome& outcome) {
  const Plan& plan = parts.plan;
  const Candidate* without = nullptr;
  for (const Candidate& one : outcome.candidates) {
    if (one.is_feasible && outcome.policies[one.policy].loses_nothing() &&
        (without == nullptr || is_better(plan, outcome, one, *without))) {
      without = &one;
    }
  }
  const Candidate* best = outcome.best < 0 ? nullptr : &outcome.candidates[static_cast<std::size_t>(outcome.best)];
  for (const Candidate* place : {best, without}) {
    if (place == nullptr) continue;
    const double start = plan.goal == Goal::rate ? place->rate : outcome.wanted_rate;
    try {
      KvLimit limit = kv_limit_of(run_of(plan, plain, *place), uncompressed, parts.model, parts.gpus.at(place->gpu),
                                  outcome.traffic, plan, place->needed, start);
      if (limit.is_known) return limit;
    } catch (const InputError&) {
      // Uncompressed, it does not even fit there.
    }
  }
  return {};
}

}  // namespace

PlanOutcome search(const Plan& plan, const SearchOptions& options) {
  // Whatever is wrong with the shared sections is wrong with every candidate: say it once.
  const PolicyChoice plain{"none", "none", {}};
  const experiment::Run shared = run_of(plan, plain, plan.gpus.front().name, 1);
  if (!shared.setting.serving) throw InputError(fmt::format("{}: workload: expected requests", plan.path));
  EngineParts parts{.plan = plan, .model = load_model(shared.setting.model)};
  PlanOutcome outcome;
  outcome.traffic = traffic_of(plan, shared, parts.model);
  outcome.trace_requests = static_cast<std::int64_t>(outcome.traffic.trace.requests.size());
  if (!outcome.traffic.has_times && plan.rate == 0 && plan.goal != Goal::rate) {
    throw InputError(fmt::format(
        "{}: plan.rate: all requests of the workload arrive at once, which is no rate to plan for: expected "
        "how many come a second, such as \"5 /s\"",
        plan.path));
  }
  outcome.wanted_rate = (plan.rate > 0 ? plan.rate : outcome.traffic.mean_rate) * plan.peak;

  // The uncompressed policy last: the verdict needs it whether the plan names it or not.
  const experiment::TraceInputs trace(shared.setting.trace, shared.setting.loss, shared.setting.seed);
  std::vector<PolicyChoice> choices = plan.policies;
  choices.push_back(plain);
  outcome.policies.resize(choices.size());
  in_parallel(choices.size(), options.jobs, [&](std::size_t i) {
    outcome.policies[i] = measure_policy(plan, choices[i], outcome.traffic, parts.model, trace);
  });
  const Policy uncompressed = std::move(outcome.policies.back());
  outcome.policies.pop_back();

  for (const GpuType& gpu : plan.gpus) {
    parts.gpus.try_emplace(gpu.name, profile_of(plan, gpu.name), shared.setting.fidelity);
  }
  outcome.candidates = candidates_of(plan);
  Listener listener(options, std::ssize(outcome.candidates));
  const std::size_t group_size = plan.max_num_seqs.size();
  in_parallel(outcome.candidates.size() / group_size, options.jobs, [&](std::size_t index) {
    const std::span<Candidate> all = outcome.candidates;
    judge_group(all.subspan(index * group_size, group_size), parts, options, outcome, listener);
  });

  const MakeReplica make = [&](const Candidate& one) {
    return parts.replica_of(run_of(plan, plan.policies[one.policy], one), one, outcome);
  };
  settle_choice(plan, outcome, make, options);
  mark_front(plan, outcome);
  outcome.kv_limit = limit_of_choice(parts, plain, uncompressed, outcome);
  return outcome;
}

}  // namespace kvtide::planning
