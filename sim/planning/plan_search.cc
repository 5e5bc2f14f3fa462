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
#include "planning/fleet_size.h"
#include "planning/in_parallel.h"

namespace kvtide::planning {
namespace {

constexpr std::int64_t kMostReplicas = 4096;

}  // namespace

void judge(Candidate& candidate, Replica& replica, const Plan& plan, const Traffic& traffic, double wanted_rate) {
  const std::int64_t ranks = candidate.tensor_parallel;
  candidate.kv_tokens = replica.kv_tokens();
  candidate.longest_context = replica.longest_context();
  std::int64_t most = kMostReplicas;
  if (plan.num_gpus > 0) {
    most = plan.num_gpus / ranks - plan.spare;
    if (most < 1) {
      candidate.reason = fmt::format("needs {} GPUs, {} given", (1 + plan.spare) * ranks, plan.num_gpus);
      return;
    }
  }
  if (plan.goal == Goal::rate) {
    const CarriedRate carried =
        rate_carried(replica, traffic, plan, most, replica.rate_bound(traffic) * static_cast<double>(most) / 2);
    candidate.reason = carried.reason;
    candidate.rate = carried.rate;
    candidate.needed = carried.rate > 0 ? most : 0;
    candidate.experience = carried.experience;
  } else {
    const FleetSize size = replicas_for(replica, traffic, plan, wanted_rate, most);
    candidate.reason = size.reason;
    candidate.needed = size.replicas;
    candidate.experience = size.experience;
  }
  if (candidate.needed == 0) return;
  candidate.is_feasible = true;
  candidate.replicas = candidate.needed + plan.spare;
  candidate.num_gpus = candidate.replicas * ranks;
  const std::optional<GpuPrice> price = plan.prices.find(candidate.gpu);
  candidate.usd_per_hour = price ? price->usd_per_hour * static_cast<double>(candidate.num_gpus) : std::nan("");
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

void mark_front(PlanOutcome& outcome) {
  // Dollars are compared with dollars: where one price is not known, all are counted in GPUs.
  const bool is_priced = std::ranges::none_of(
      outcome.candidates, [](const Candidate& one) { return one.is_feasible && std::isnan(one.usd_per_hour); });
  const auto figures = [&](const Candidate& one) {
    return std::array{is_priced ? one.usd_per_hour : static_cast<double>(one.num_gpus), one.experience.latency.p95,
                      outcome.policies[one.policy].loss_worst, -one.rate};
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

PlanOutcome search(const Plan& plan, const SearchOptions& options) {
  PlanOutcome outcome;
  // Whatever is wrong with the shared sections is wrong with every candidate: say it once.
  const PolicyChoice plain{"none", "none", {}};
  const experiment::Run shared = run_of(plan, plain, plan.gpus.front(), 1);
  if (!shared.setting.serving) throw InputError(fmt::format("{}: workload: expected requests", plan.path));
  const Model model = load_model(plan.model);
  outcome.traffic = load_traffic(*shared.setting.serving, model, shared.setting.seed);
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
  for (const std::string& name : plan.gpus) {
    gpus.try_emplace(name, gpu::load_gpu_profile(name), shared.setting.fidelity);
  }
  for (const std::string& gpu : plan.gpus) {
    for (const std::int64_t ranks : plan.tensor_parallel) {
      for (std::size_t policy = 0; policy < outcome.policies.size(); ++policy) {
        for (const std::int64_t batch : plan.max_num_seqs) {
          Candidate candidate;
          candidate.index = static_cast<std::int64_t>(outcome.candidates.size());
          candidate.gpu = gpu;
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
        key = fnv1a64(fmt::format("{:x} {} {}\n{}\n{}", run->key, candidate.index, candidate.max_num_seqs, plan.yaml,
                                  plan.overrides));
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

  mark_front(outcome);
  for (const Candidate& candidate : outcome.candidates) {
    if (!candidate.is_feasible) continue;
    if (outcome.best < 0 ||
        is_better(plan, outcome, candidate, outcome.candidates[static_cast<std::size_t>(outcome.best)])) {
      outcome.best = candidate.index;
    }
  }
  if (outcome.best >= 0 && plan.goal != Goal::rate) {
    Candidate& best = outcome.candidates[static_cast<std::size_t>(outcome.best)];
    experiment::Run run = run_of(plan, plan.policies[best.policy], best.gpu, best.tensor_parallel);
    run.setting.serving->max_num_seqs = best.max_num_seqs;
    Replica replica(std::move(run), outcome.policies[best.policy], model, gpus.at(best.gpu), traffic.longest,
                    plan.calibration);
    best.rate = rate_carried(replica, traffic, plan, best.needed, outcome.wanted_rate).rate;
  }
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
