#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "planning/text_spread.h"

namespace kvtide::cli {
namespace {

using planning::Candidate;
using planning::Goal;
using planning::Plan;
using planning::PlanOutcome;

std::string setting_text(const PlanOutcome& outcome, const Candidate& one, bool has_counts = true) {
  if (!has_counts) {
    return fmt::format("{}, {} a replica, cache {}, max_num_seqs {}", one.gpu, one.tensor_parallel,
                       outcome.policies[one.policy].label, one.max_num_seqs);
  }
  return fmt::format("{} x {} ({} replica{} of {}), cache {}, max_num_seqs {}", one.num_gpus, one.gpu, one.replicas,
                     one.replicas == 1 ? "" : "s", one.tensor_parallel, outcome.policies[one.policy].label,
                     one.max_num_seqs);
}

/// How far a loss measured on one text carries to another.
std::string spread_text() {
  const auto spread = planning::measured_text_spread();
  if (!spread) return "interval between texts: not known";
  return fmt::format(
      "on another text the mean may be {:.2f} to {:.2f} times that ({} texts under one setting, 80 % of them; of other "
      "policies not "
      "known)",
      spread->low, spread->high, spread->texts);
}

std::string money(double usd) {
  return std::isnan(usd) ? "no price" : fmt::format("{:.2f} USD/h", usd);
}

std::string milliseconds(double seconds) {
  return std::isnan(seconds) ? "-" : planning::milliseconds_text(seconds);
}

/// Feasible candidates, best first.
std::vector<const Candidate*> ranked(const Plan& plan, const PlanOutcome& outcome) {
  std::vector<const Candidate*> list;
  for (const Candidate& one : outcome.candidates) {
    if (one.is_feasible) list.push_back(&one);
  }
  std::ranges::sort(list, [&](const Candidate* a, const Candidate* b) { return is_better(plan, outcome, *a, *b); });
  return list;
}

std::string latencies_json(const planning::Latencies& one) {
  return fmt::format("{{\"p50\": {}, \"p90\": {}, \"p95\": {}, \"p99\": {}}}", json_figure(one.p50),
                     json_figure(one.p90), json_figure(one.p95), json_figure(one.p99));
}

std::string candidate_json(const PlanOutcome& outcome, const Candidate& one) {
  const planning::Policy& policy = outcome.policies[one.policy];
  std::string text = fmt::format(
      "{{\"index\": {}, \"gpu\": {}, \"tensor_parallel\": {}, \"policy\": {}, \"max_num_seqs\": {}, \"feasible\": {}, "
      "\"reason\": {}, \"loss_mean\": {}, \"loss_worst\": {}, \"kv_tokens\": {}, \"longest_context\": {}",
      one.index, quoted_text(one.gpu), one.tensor_parallel, quoted_text(policy.label), one.max_num_seqs,
      one.is_feasible, quoted_text(one.reason), json_figure(policy.loss_mean), json_figure(policy.loss_worst),
      one.kv_tokens, one.longest_context);
  if (one.is_feasible) {
    text += fmt::format(
        ", \"replicas_needed\": {}, \"exact\": {}, \"replicas\": {}, \"gpus\": {}, \"usd_per_hour\": {}, \"rate\": {}, "
        "\"on_front\": {}, "
        "\"ttft_s\": {}, \"tpot_s\": {}, \"latency_s\": {}, \"preemptions\": {}, \"most_running\": {}, "
        "\"most_used_pages_share\": {}",
        one.needed, one.is_exact, one.replicas, one.num_gpus, json_figure(one.usd_per_hour), json_figure(one.rate),
        one.is_on_front, latencies_json(one.experience.ttft), latencies_json(one.experience.tpot),
        latencies_json(one.experience.latency), one.experience.preemptions, one.experience.max_running,
        json_figure(one.experience.used_share));
  }
  return text + "}";
}

}  // namespace

std::string plan_verdict(const Plan& plan, const PlanOutcome& outcome) {
  std::string text = outcome.kv_limit.text() + "\n";
  const WeightStorage& weights = outcome.policies.front().run.setting.weights;  // every policy's
  if (weights != WeightStorage{}) text += fmt::format("Weights of {} in {}.\n", plan.model, to_string(weights));
  if (outcome.best < 0) {
    return text + fmt::format("No candidate of {} keeps the objectives and the loss bound (why: below).\n",
                              outcome.candidates.size());
  }
  const Candidate& best = outcome.candidates[static_cast<std::size_t>(outcome.best)];
  const planning::Policy& policy = outcome.policies[best.policy];
  text += fmt::format("Choice: {}: {} for {:.3g} requests/s", setting_text(outcome, best), money(best.usd_per_hour),
                      plan.goal == Goal::rate ? best.rate : outcome.wanted_rate);
  if (plan.spare > 0) text += fmt::format(", {} of the replicas to spare", plan.spare);
  if (best.rate > 0 && plan.goal != Goal::rate) {
    text += fmt::format("; the {} needed carry {:.3g} ({:+.0f} %)", best.needed, best.rate,
                        100 * (best.rate / outcome.wanted_rate - 1));
  }
  text += ".\n";
  const auto list = ranked(plan, outcome);
  const auto plain =
      std::ranges::find_if(list, [&](const Candidate* one) { return outcome.policies[one->policy].loses_nothing(); });
  if (policy.loses_nothing()) {
    text += "No compression is worth its loss here: the uncompressed cache is at least as good a choice.\n";
  } else if (std::ranges::none_of(outcome.policies, &planning::Policy::loses_nothing)) {
    text += "Uncompressed: not among the candidates of this plan.\n";
  } else if (plain == list.end()) {
    text += "Uncompressed, no candidate keeps the objectives.\n";
  } else if (plan.goal == Goal::rate) {
    text += fmt::format("Uncompressed: {}: {:.3g} requests/s; compression carries {:+.0f} %.\n",
                        setting_text(outcome, **plain), (*plain)->rate, 100 * (best.rate / (*plain)->rate - 1));
  } else {
    const double ratio = plan.goal == Goal::cost
                             ? best.usd_per_hour / (*plain)->usd_per_hour
                             : static_cast<double>(best.num_gpus) / static_cast<double>((*plain)->num_gpus);
    text += fmt::format("Uncompressed: {}: {}; compression saves {:.0f} %.\n", setting_text(outcome, **plain),
                        money((*plain)->usd_per_hour), 100 * (1 - ratio));
  }
  if (!policy.loses_nothing()) {
    text += fmt::format(
        "It loses {:.2f} % of attention on average, {:.1f} % at the worst position, measured on {} over {} tokens; "
        "{}.\n",
        100 * policy.loss_mean, 100 * policy.loss_worst, policy.loss_model, policy.loss_tokens, spread_text());
  }
  text += fmt::format("The longest prompt that fits one replica: {} tokens.\n", best.longest_context);
  return text;
}

std::string plan_table(const Plan& plan, const PlanOutcome& outcome, std::size_t most_rows) {
  Table table({{"", Align::left},
               {"GPUs", Align::left},
               {"cache", Align::left},
               {"seqs", Align::right},
               {"replicas", Align::right},
               {"USD/h", Align::right},
               {"rate /s", Align::right},
               {"TTFT p95 ms", Align::right},
               {"TPOT p95 ms", Align::right},
               {"pages", Align::right},
               {"mean loss", Align::right},
               {"worst", Align::right}});
  const auto list = ranked(plan, outcome);
  for (std::size_t i = 0; i < std::min(list.size(), most_rows); ++i) {
    const Candidate& one = *list[i];
    const planning::Policy& policy = outcome.policies[one.policy];
    table.add_row({one.index == outcome.best ? "best"
                   : one.is_on_front         ? "front"
                                             : "",
                   fmt::format("{} x {}", one.num_gpus, one.gpu), policy.label, fmt::format("{}", one.max_num_seqs),
                   fmt::format("{}{} of {}", one.is_exact ? "" : "~ ", one.replicas, one.tensor_parallel),
                   std::isnan(one.usd_per_hour) ? "-" : fmt::format("{:.2f}", one.usd_per_hour),
                   one.rate > 0 ? fmt::format("{:.3g}", one.rate) : "", milliseconds(one.experience.ttft.p95),
                   milliseconds(one.experience.tpot.p95), fmt::format("{:.0f} %", 100 * one.experience.used_share),
                   fmt::format("{:.2f} %", 100 * policy.loss_mean), fmt::format("{:.1f} %", 100 * policy.loss_worst)});
  }
  std::string text = list.empty() ? "" : table.text();
  if (list.size() > most_rows) text += fmt::format("and {} more (--all)\n", list.size() - most_rows);

  Table refused({{"not possible", Align::left}, {"cache", Align::left}, {"seqs", Align::right}, {"why", Align::left}});
  std::size_t count = 0;
  for (const Candidate& one : outcome.candidates) {
    if (one.is_feasible || ++count > most_rows) continue;
    refused.add_row({fmt::format("{} x {}", one.tensor_parallel, one.gpu), outcome.policies[one.policy].label,
                     fmt::format("{}", one.max_num_seqs), one.reason});
  }
  if (count > 0) text += fmt::format("{}{}", text.empty() ? "" : "\n", refused.text());
  if (count > most_rows) text += fmt::format("and {} more (--all)\n", count - most_rows);
  return text;
}

std::string sensitivity_text(const Plan& plan, const PlanOutcome& outcome,
                             const std::vector<planning::Variation>& variations) {
  if (variations.empty()) return "";
  Table table({{"if wrong", Align::left}, {"by", Align::right}, {"then", Align::right}, {"choice", Align::left}});
  std::string kept;
  for (const planning::Variation& one : variations) {
    const std::string factor = fmt::format("{:+.0f} %", 100 * (one.factor - 1));
    if (!one.flips) {
      kept += fmt::format("{}{} {}", kept.empty() ? "" : ", ", one.assumption, factor);
      continue;
    }
    const std::string value = plan.goal == Goal::cost ? money(one.value) : fmt::format("{:.3g}", one.value);
    table.add_row({one.assumption, factor, one.best < 0 ? "-" : value,
                   one.best < 0
                       ? "nothing is possible"
                       : setting_text(outcome, outcome.candidates[static_cast<std::size_t>(one.best)], false)});
  }
  const bool has_flips = std::ranges::any_of(variations, &planning::Variation::flips);
  std::string text =
      has_flips ? "The choice flips:\n" + table.text() : "No assumption wrong by a fifth flips the choice.\n";
  if (has_flips && !kept.empty()) text += "It stays with: " + kept + ".\n";
  return text;
}

std::string plan_basis(const Plan& plan, const PlanOutcome& outcome) {
  const std::string rate =
      outcome.traffic.has_times ? fmt::format("{:.3g} requests/s", outcome.traffic.mean_rate) : "no times of arrival";
  const std::string wanted = plan.goal == Goal::rate
                                 ? "as many as possible"
                                 : fmt::format("{:.3g} (peak x {:g})", outcome.wanted_rate, plan.peak);
  std::string text = fmt::format(
      "Traffic: {} requests, {:.0f} prompt and {:.0f} output tokens on average, {}; wanted {}. A candidate is first "
      "judged by the {} neighbouring requests of one replica's share that bring the most tokens a second (~: a replica "
      "or two too many or too few); whatever could be the choice, or the choice without compression, is counted with "
      "every request on every replica, and so are the rates above.\n",
      outcome.trace_requests, outcome.traffic.mean_input, outcome.traffic.mean_output, rate, wanted,
      plan.sample_requests);
  if (outcome.traffic.truncated + outcome.traffic.dropped > 0) {
    text += fmt::format("Too long for the model: {} truncated, {} dropped.\n", outcome.traffic.truncated,
                        outcome.traffic.dropped);
  }
  text += fmt::format("Bounds ({}): {:.1f} % mean, {:.1f} % worst. Prices of one GPU:", plan.task,
                      100 * plan.loss.mean_max, 100 * plan.loss.worst_max);
  for (const planning::GpuType& gpu : plan.gpus) {
    const auto price = plan.prices.find(gpu.name);
    text += price ? fmt::format(" {} {} ({}; {})", gpu.name, money(price->usd_per_hour), price->date, price->source)
                  : fmt::format(" {} not known", gpu.name);
    text += &gpu == &plan.gpus.back() ? ".\n" : ",";
  }
  return text;
}

std::string plan_json(const Plan& plan, const PlanOutcome& outcome,
                      const std::vector<planning::Variation>& variations) {
  const planning::KvLimit& limit = outcome.kv_limit;
  std::string text = fmt::format(
      "{{\"name\": {}, \"weights\": {}, \"goal\": {}, \"task\": {}, \"loss_mean_max\": {}, \"loss_worst_max\": {}, "
      "\"wanted_rate\": {}, "
      "\"verdict\": {}, ",
      quoted_text(plan.name), quoted_text(to_string(outcome.policies.front().run.setting.weights)),
      quoted_text(to_string(plan.goal)), quoted_text(plan.task), json_figure(plan.loss.mean_max),
      json_figure(plan.loss.worst_max), json_figure(outcome.wanted_rate), quoted_text(plan_verdict(plan, outcome)));
  text += fmt::format(
      "\"kv_limit\": {{\"known\": {}, \"memory\": {}, \"bandwidth\": {}, \"rate\": {}, \"rate_unlimited\": {}, "
      "\"rate_free\": {}}}, ",
      limit.is_known, limit.is_known && limit.is_memory(), limit.is_known && limit.is_bandwidth(),
      json_figure(limit.rate), json_figure(limit.rate_unlimited), json_figure(limit.rate_free));
  text += "\"prices\": {";
  for (std::size_t i = 0; i < plan.gpus.size(); ++i) {
    const auto price = plan.prices.find(plan.gpus[i].name);
    text += fmt::format("{}{}: {{\"usd_per_hour\": {}, \"date\": {}, \"source\": {}}}", i > 0 ? ", " : "",
                        quoted_text(plan.gpus[i].name), price ? json_figure(price->usd_per_hour) : "null",
                        quoted_text(price ? price->date : ""), quoted_text(price ? price->source : ""));
  }
  text +=
      fmt::format("}}, \"best\": {}, \"candidates\": [", outcome.best < 0 ? "null" : fmt::format("{}", outcome.best));
  for (const Candidate& one : outcome.candidates) {
    text += (one.index > 0 ? ", " : "") + candidate_json(outcome, one);
  }
  text += "], \"sensitivity\": [";
  for (std::size_t i = 0; i < variations.size(); ++i) {
    const planning::Variation& one = variations[i];
    text += fmt::format("{}{{\"assumption\": {}, \"factor\": {}, \"best\": {}, \"value\": {}, \"flips\": {}}}",
                        i > 0 ? ", " : "", quoted_text(one.assumption), json_figure(one.factor),
                        one.best < 0 ? "null" : fmt::format("{}", one.best), json_figure(one.value), one.flips);
  }
  return text + "]}\n";
}

}  // namespace kvtide::cli
