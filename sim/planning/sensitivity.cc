#include "planning/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "planning/in_parallel.h"

namespace kvtide::planning {
namespace {

constexpr std::size_t kContenders = 5;

/// One changed world.
struct World {
  std::string assumption;
  double factor = 1;
  double rate = 1, output = 1, memory_overhead = 1, bandwidth = 1;  // factors
};

std::vector<const Candidate*> contenders_of(const Plan& plan, const PlanOutcome& outcome) {
  std::vector<const Candidate*> ranked;
  for (const Candidate& one : outcome.candidates) {
    if (one.is_feasible) ranked.push_back(&one);
  }
  std::ranges::sort(ranked, [&](const Candidate* a, const Candidate* b) { return is_better(plan, outcome, *a, *b); });
  std::set<std::pair<std::string, std::size_t>> seen;
  std::vector<const Candidate*> contenders;
  for (const Candidate* one : ranked) {
    if (contenders.size() < kContenders && seen.emplace(one->gpu, one->policy).second) contenders.push_back(one);
  }
  return contenders;
}

double value_of(const Plan& plan, const Candidate& one) {
  return plan.goal == Goal::rate   ? one.rate
         : plan.goal == Goal::cost ? one.usd_per_hour
                                   : static_cast<double>(one.num_gpus);
}

Variation variation_of(const Plan& plan, const PlanOutcome& outcome, const std::string& assumption, double factor,
                       const std::vector<Candidate>& judged) {
  Variation variation{.assumption = assumption, .factor = factor, .best = -1, .value = std::nan(""), .flips = false};
  const Candidate& chosen = outcome.candidates[static_cast<std::size_t>(outcome.best)];
  const Candidate* best = nullptr;
  for (const Candidate& one : judged) {
    if (one.is_feasible && (best == nullptr || is_better(plan, outcome, one, *best))) best = &one;
  }
  variation.flips = best == nullptr || best->gpu != chosen.gpu || best->policy != chosen.policy ||
                    best->tensor_parallel != chosen.tensor_parallel;
  if (best != nullptr) {
    variation.best = best->index;
    variation.value = value_of(plan, *best);
  }
  return variation;
}

/// Both ways of each assumption, by name.
std::vector<World> worlds_of(const PlanOutcome& outcome) {
  std::vector<World> worlds;
  for (const double factor : {1 - kVariation, 1 + kVariation}) {
    worlds.push_back({.assumption = "request rate", .factor = factor, .rate = factor});
    worlds.push_back({.assumption = "output length", .factor = factor, .output = factor});
    if (assumes_memory_overhead(*outcome.policies.front().run.setting.serving)) {
      worlds.push_back({.assumption = "memory overhead", .factor = factor, .memory_overhead = factor});
    }
    worlds.push_back({.assumption = "memory bandwidth", .factor = factor, .bandwidth = factor});
  }
  std::ranges::stable_sort(worlds, {}, &World::assumption);
  return worlds;
}

/// A GPU type at one bandwidth; what its kernels cost is known to all worlds that do not change it.
using GpusByBandwidth = std::map<std::pair<std::string, double>, gpu::Gpu>;
constexpr std::array kBandwidths{1.0, 1 - kVariation, 1 + kVariation};

GpusByBandwidth gpus_of(const Plan& plan, const PlanOutcome& outcome, const std::vector<const Candidate*>& contenders) {
  GpusByBandwidth gpus;
  for (const Candidate* one : contenders) {
    for (const double bandwidth : kBandwidths) {
      gpu::GpuProfile profile = profile_of(plan, one->gpu);
      profile.bandwidth *= bandwidth;
      profile.data_rate *= bandwidth;
      gpus.try_emplace({one->gpu, bandwidth}, std::move(profile), outcome.policies[one->policy].run.setting.fidelity);
    }
  }
  return gpus;
}

/// The contender in one world. @param replica  its engine, of the world's bandwidth
Candidate judged_in(const World& world, const Traffic& traffic, const Candidate& contender, Replica& replica,
                    const Plan& plan, double wanted_rate) {
  Candidate candidate = contender;
  candidate.is_feasible = false;
  try {
    replica.assume({.memory_overhead = world.memory_overhead}, traffic.longest);
    judge(candidate, replica, plan, traffic, wanted_rate * world.rate,
          contender.is_exact && plan.goal != Goal::rate ? Scope::everything : Scope::sample);
  } catch (const InputError& error) {
    candidate.reason = error.what();
  }
  return candidate;
}

/// Prices need no new replay.
std::vector<Variation> vary_prices(const Plan& plan, const PlanOutcome& outcome) {
  std::vector<Variation> variations;
  for (const GpuType& gpu : plan.gpus) {
    for (const double factor : {1 - kVariation, 1 + kVariation}) {
      std::vector<Candidate> repriced = outcome.candidates;
      for (Candidate& one : repriced) {
        if (one.gpu == gpu.name) one.usd_per_hour *= factor;
      }
      variations.push_back(variation_of(plan, outcome, fmt::format("price of {}", gpu.name), factor, repriced));
    }
  }
  return variations;
}

}  // namespace

std::vector<Variation> vary_assumptions(const Plan& plan, const PlanOutcome& outcome, const SearchOptions& options) {
  if (outcome.best < 0) return {};
  const std::vector<const Candidate*> contenders = contenders_of(plan, outcome);
  const Model model = load_model(outcome.policies.front().run.setting.model);
  const std::vector<World> worlds = worlds_of(outcome);
  std::vector<Traffic> traffics;  // [world]
  traffics.reserve(worlds.size());
  for (const World& world : worlds) {
    traffics.push_back(world.output == 1 ? outcome.traffic : with_longer_outputs(outcome.traffic, world.output));
  }
  GpusByBandwidth gpus = gpus_of(plan, outcome, contenders);
  std::vector<std::vector<Candidate>> judged(worlds.size(), std::vector<Candidate>(contenders.size()));
  std::mutex mutex;
  std::int64_t done = 0;
  in_parallel(contenders.size() * kBandwidths.size(), options.jobs, [&](std::size_t index) {
    const std::size_t c = index / kBandwidths.size();
    const double bandwidth = kBandwidths[index % kBandwidths.size()];
    const Candidate& contender = *contenders[c];
    experiment::Run run = run_of(plan, plan.policies[contender.policy], contender.gpu, contender.tensor_parallel);
    run.setting.serving->max_num_seqs = contender.max_num_seqs;
    Replica replica(std::move(run), outcome.policies[contender.policy], model, gpus.at({contender.gpu, bandwidth}),
                    outcome.traffic.longest, plan.calibration);
    for (std::size_t w = 0; w < worlds.size(); ++w) {
      if (worlds[w].bandwidth != bandwidth) continue;
      judged[w][c] = judged_in(worlds[w], traffics[w], contender, replica, plan, outcome.wanted_rate);
      const std::lock_guard lock(mutex);
      ++done;
      if (options.on_progress)
        options.on_progress(SearchPart::varying, done, std::ssize(worlds) * std::ssize(contenders));
    }
  });
  std::vector<Variation> variations;
  for (std::size_t w = 0; w < worlds.size(); ++w) {
    variations.push_back(variation_of(plan, outcome, worlds[w].assumption, worlds[w].factor, judged[w]));
  }
  if (plan.goal == Goal::cost) {
    for (Variation& variation : vary_prices(plan, outcome)) variations.push_back(std::move(variation));
  }
  return variations;
}

}  // namespace kvtide::planning
