#include "planning/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/random.h"
#include "planning/in_parallel.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kMostReplicas = 4096;
constexpr std::size_t kRatesSettled = 6;
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

void settle_choice(const Plan& plan, PlanOutcome& outcome, const MakeReplica& make, std::int64_t jobs) {
  const Traffic& traffic = outcome.traffic;
  std::vector<Candidate*> ranked;
  for (Candidate& one : outcome.candidates) {
    if (one.is_feasible) ranked.push_back(&one);
  }
  std::ranges::sort(ranked, [&](const Candidate* a, const Candidate* b) { return is_better(plan, outcome, *a, *b); });
  Candidate* best = nullptr;
  const auto choose = [&](Candidate* one) {
    if (one->is_exact && one->is_feasible && (best == nullptr || is_better(plan, outcome, *one, *best))) best = one;
  };
  const auto settle = [&](Candidate& one) {
    if (plan.goal == Goal::rate) {
      const std::unique_ptr<Replica> replica = make(one);
      const CarriedRate carried = rate_carried(*replica, traffic, plan, one.needed, one.rate, Scope::everything);
      if (carried.rate <= 0) return;
      one.rate = carried.rate;
      one.experience = carried.experience;
      one.is_exact = true;
      return;
    }
    // So many that it costs no more than the best so far.
    std::int64_t worthwhile = kMostReplicas;
    if (best != nullptr) {
      const double each = plan.goal == Goal::cost ? one.usd_per_hour / static_cast<double>(one.replicas)
                                                  : static_cast<double>(one.tensor_parallel);
      const double limit = plan.goal == Goal::cost ? best->usd_per_hour : static_cast<double>(best->num_gpus);
      // What costs nothing is worth it in any number; of what costs something beside what does not, none is.
      if (each > 0) {
        const double count = std::floor(limit / each * (1 + 1e-9));
        worthwhile = static_cast<std::int64_t>(std::min(count, static_cast<double>(kMostReplicas))) - plan.spare;
      }
    }
    if (worthwhile < 1 || worthwhile < one.needed / 2) return;
    const std::unique_ptr<Replica> replica = make(one);
    const std::int64_t most = most_replicas(plan, one);
    FleetSize size =
        exact_replicas(*replica, traffic, plan, outcome.wanted_rate, std::min(one.needed, most), worthwhile, most);
    if (size.replicas == 0) {
      if (worthwhile < std::min(one.needed, most)) return;  // dearer than the best, however much
      one.reason = size.reason;
    }
    one.needed = size.replicas;
    one.experience = std::move(size.experience);
    one.is_exact = true;
    set_fleet(one, plan);
  };
  const std::size_t count = plan.goal == Goal::rate ? std::min(ranked.size(), kRatesSettled) : ranked.size();
  for (std::size_t first = 0; first < count; first += kSettledAtOnce) {
    const std::size_t wave = std::min(kSettledAtOnce, count - first);
    in_parallel(wave, jobs, [&](std::size_t i) {
      Candidate& one = *ranked[first + i];
      try {
        settle(one);
      } catch (const InputError& error) {  // of this candidate: the others stay possible
        one.reason = error.what();
        one.needed = 0;
        set_fleet(one, plan);
      }
    });
    for (std::size_t i = first; i < first + wave; ++i) choose(ranked[i]);
  }
  for (Candidate* one : ranked) {
    const std::int64_t most = most_replicas(plan, *one);
    if (one->is_exact || one->needed <= most) continue;
    one->reason = fmt::format("about {} replicas, {} fit", one->needed, most);
    one->is_feasible = false;
  }
  if (best == nullptr) return;
  outcome.best = best->index;
  if (plan.goal != Goal::rate) {
    const std::unique_ptr<Replica> replica = make(*best);
    best->rate = rate_carried(*replica, traffic, plan, best->needed, outcome.wanted_rate, Scope::everything).rate;
  }
}

PlanOutcome search(const Plan& plan, const SearchOptions& options) {
  PlanOutcome outcome;
  // Whatever is wrong with the shared sections is wrong with every candidate: say it once.
  const PolicyChoice plain{"none", "none", {}};
  const experiment::Run shared = run_of(plan, plain, plan.gpus.front().name, 1);
  if (!shared.setting.serving) throw InputError(fmt::format("{}: workload: expected requests", plan.path));
  const Model model = load_model(shared.setting.model);
  try {
    outcome.traffic = load_traffic(*shared.setting.serving, model, shared.setting.seed);
  } catch (const InputError& error) {  // of the requests' file with its own name, else of the plan
    const std::string& file = shared.setting.serving->requests;
    if (!file.empty() && std::string(error.what()).find(file) != std::string::npos) throw;
    throw InputError(fmt::format("{}: {}", plan.path, error.what()));
  }
  const Traffic& traffic = outcome.traffic;
  outcome.trace_requests = static_cast<std::int64_t>(traffic.trace.requests.size());
  outcome.wanted_rate = (plan.rate > 0 ? plan.rate : traffic.mean_rate) * plan.peak;
  const experiment::TraceInputs trace(shared.setting.trace, shared.setting.loss, shared.setting.seed);

  // The uncompressed policy last: the verdict needs it whether the plan names it or not.
  std::vector<PolicyChoice> choices = plan.policies;
  choices.push_back(plain);
  std::vector<Policy> policies(choices.size());
  in_parallel(choices.size(), options.jobs,
              [&](std::size_t i) { policies[i] = measure_policy(plan, choices[i], traffic, model, trace); });
  const Policy uncompressed = policies.back();
  policies.pop_back();
  outcome.policies = std::move(policies);

  std::map<std::string, gpu::Gpu> gpus;
  for (const GpuType& gpu : plan.gpus) {
    gpus.try_emplace(gpu.name, profile_of(plan, gpu.name), shared.setting.fidelity);
  }
  for (const GpuType& gpu : plan.gpus) {
    for (const std::int64_t ranks : plan.tensor_parallel) {
      for (std::size_t policy = 0; policy < outcome.policies.size(); ++policy) {
        for (const std::int64_t batch : plan.max_num_seqs) {
          Candidate candidate;
          candidate.index = static_cast<std::int64_t>(outcome.candidates.size());
          candidate.gpu = gpu.name;
          candidate.tensor_parallel = ranks;
          candidate.max_num_seqs = batch;
          candidate.policy = policy;
          candidate.usd_per_hour = std::nan("");
          outcome.candidates.push_back(candidate);
        }
      }
    }
  }
  // Candidates that differ in the batch limit alone share their step times.
  const std::size_t group = plan.max_num_seqs.size();
  std::int64_t done = 0;
  std::mutex progress;
  in_parallel(outcome.candidates.size() / group, options.jobs, [&](std::size_t index) {
    std::unique_ptr<Replica> replica;
    std::optional<experiment::Run> run;
    for (std::size_t i = index * group; i < (index + 1) * group; ++i) {
      Candidate& candidate = outcome.candidates[i];
      const Policy& policy = outcome.policies[candidate.policy];
      std::uint64_t key = 0;
      bool is_known = false;
      try {
        if (!policy.refusal.empty()) throw InputError(policy.refusal);
        if (!run) run = run_of(plan, plan.policies[candidate.policy], candidate.gpu, candidate.tensor_parallel);
        key = fnv1a64(fmt::format("{:x} {} {}\n{}\n{}\n{}", run->key, candidate.index, candidate.max_num_seqs,
                                  options.build, plan.yaml, plan.overrides));
        if (options.restore) {
          const std::lock_guard lock(progress);
          is_known = options.restore(key, candidate);
        }
        if (!is_known) {
          run->setting.serving->max_num_seqs = candidate.max_num_seqs;
          if (!replica) {
            replica = std::make_unique<Replica>(*run, policy, model, gpus.at(candidate.gpu), traffic.longest,
                                                plan.calibration);
          } else {
            replica->set_max_num_seqs(candidate.max_num_seqs);
          }
          judge(candidate, *replica, plan, traffic, outcome.wanted_rate);
        }
      } catch (const InputError& error) {
        candidate.reason = error.what();
      }
      const std::lock_guard lock(progress);
      ++done;
      if (options.on_judged && !is_known && key != 0) options.on_judged(key, candidate);
      if (options.on_progress) options.on_progress(done, static_cast<std::int64_t>(outcome.candidates.size()));
    }
  });

  const MakeReplica make = [&](const Candidate& one) {
    experiment::Run run = run_of(plan, plan.policies[one.policy], one.gpu, one.tensor_parallel);
    run.setting.serving->max_num_seqs = one.max_num_seqs;
    return std::make_unique<Replica>(std::move(run), outcome.policies[one.policy], model, gpus.at(one.gpu),
                                     traffic.longest, plan.calibration);
  };
  settle_choice(plan, outcome, make, options.jobs);
  mark_front(plan, outcome);
  // Of the fleet chosen, without compression; where that cannot be, of the one to buy without it.
  const Candidate* without = nullptr;
  for (const Candidate& one : outcome.candidates) {
    if (one.is_feasible && outcome.policies[one.policy].loses_nothing() &&
        (without == nullptr || is_better(plan, outcome, one, *without))) {
      without = &one;
    }
  }
  const Candidate* best = outcome.best < 0 ? nullptr : &outcome.candidates[static_cast<std::size_t>(outcome.best)];
  for (const Candidate* place : {best, without}) {
    if (place == nullptr || outcome.kv_limit.is_known) continue;
    experiment::Run run = run_of(plan, plain, place->gpu, place->tensor_parallel);
    run.setting.serving->max_num_seqs = place->max_num_seqs;
    try {
      outcome.kv_limit = kv_limit_of(run, uncompressed, model, gpus.at(place->gpu), traffic, plan, place->needed,
                                     plan.goal == Goal::rate ? place->rate : outcome.wanted_rate);
    } catch (const InputError&) {
      // Uncompressed, it does not even fit there.
    }
  }
  return outcome;
}

}  // namespace kvtide::planning
