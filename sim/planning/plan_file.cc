#include "planning/plan_file.h"

#include <cmath>
#include <numeric>

#include "hdf5/hdf5_file.h"

namespace kvtide::planning {
namespace {

/// Writes columns over one dimension.
template <typename Row>
class Columns {
 public:
  Columns(hdf5::OutputFile& file, std::string group, const std::string& dimension, const std::vector<Row>& rows,
          const std::string& long_name)
      : file_(file), group_(std::move(group)), dimension_(group_ + "/" + dimension), rows_(rows) {
    std::vector<std::int64_t> index(rows.size());
    std::iota(index.begin(), index.end(), std::int64_t{0});
    file_.create_group(group_);
    file_.dimension(dimension_, index, {.long_name = long_name});
  }
  template <typename ValueOf>
  void add(const std::string& name, const std::string& long_name, const std::string& units, const ValueOf& value_of) {
    using Value = std::decay_t<decltype(value_of(rows_.front()))>;
    std::vector<Value> values;
    for (const Row& row : rows_) values.push_back(value_of(row));
    file_.write(group_ + "/" + name, std::span<const Value>(values), {dimension_},
                {.long_name = long_name, .units = units});
  }

 private:
  hdf5::OutputFile& file_;
  std::string group_, dimension_;
  const std::vector<Row>& rows_;
};

void write_candidates(hdf5::OutputFile& file, const PlanOutcome& outcome) {
  Columns<Candidate> columns(file, "/candidates", "candidate", outcome.candidates, "Candidate, in the plan's order");
  using One = Candidate;
  const auto flag = [](bool value) { return std::uint8_t{value}; };
  const auto policy = [&](const One& one) -> const Policy& { return outcome.policies[one.policy]; };
  columns.add("gpu", "GPU type", "1", [](const One& one) { return one.gpu; });
  columns.add("tensor_parallel", "GPUs of a replica", "1", [](const One& one) { return one.tensor_parallel; });
  columns.add("policy", "Treatment of the cache", "1", [&](const One& one) { return policy(one).label; });
  columns.add("max_num_seqs", "Sequences in a batch, at most", "1", [](const One& one) { return one.max_num_seqs; });
  columns.add("feasible", "1 where objectives and loss bound are kept", "1",
              [&](const One& one) { return flag(one.is_feasible); });
  columns.add("reason", "Why not", "1", [](const One& one) { return one.reason; });
  columns.add("replicas_needed", "Replicas that the peak rate needs", "1", [](const One& one) { return one.needed; });
  columns.add("exact", "1 where they were counted with every request on every replica, 0: by the busiest sample of one",
              "1", [&](const One& one) { return flag(one.is_exact); });
  columns.add("replicas", "Replicas, spare ones included", "1", [](const One& one) { return one.replicas; });
  columns.add("gpus", "GPUs of all replicas", "1", [](const One& one) { return one.num_gpus; });
  columns.add("usd_per_hour", "Price of all GPUs in USD", "h-1", [](const One& one) { return one.usd_per_hour; });
  columns.add("rate", "Requests a second that the needed replicas carry; 0 where not searched", "s-1",
              [](const One& one) { return one.rate; });
  for (const Metric metric : {Metric::ttft, Metric::tpot, Metric::latency}) {
    for (const std::int64_t percentile : {50, 90, 95, 99}) {
      const Objective name{.metric = metric, .percentile = percentile, .seconds = 0};
      columns.add(name.name() + "_s", "Percentile over the replayed requests", "s", [&](const One& one) {
        return one.is_feasible ? one.experience.of(metric).at(percentile) : std::nan("");
      });
    }
  }
  columns.add("most_used_pages_share", "KV pages taken, at most", "1",
              [](const One& one) { return one.experience.used_share; });
  columns.add("preemptions", "Requests computed again, in the replay", "1",
              [](const One& one) { return one.experience.preemptions; });
  columns.add("kv_tokens", "Entries that one replica's cache holds", "token",
              [](const One& one) { return one.kv_tokens; });
  columns.add("longest_context", "Longest prompt that fits one replica", "token",
              [](const One& one) { return one.longest_context; });
  columns.add("loss_mean", "Attention lost, mean", "1", [&](const One& one) { return policy(one).loss_mean; });
  columns.add("loss_worst", "Attention lost at the worst position", "1",
              [&](const One& one) { return policy(one).loss_worst; });
  columns.add("on_front",
              "1 where nothing is as good in cost, p95 latency and worst loss (goal rate: and rate) and better in one",
              "1", [&](const One& one) { return flag(one.is_on_front); });
}

void write_policies(hdf5::OutputFile& file, const PlanOutcome& outcome) {
  Columns<Policy> columns(file, "/policies", "policy", outcome.policies, "Treatment of the cache");
  columns.add("label", "Name in the plan", "1", [](const Policy& one) { return one.label; });
  columns.add("loss_mean", "Attention lost, mean", "1", [](const Policy& one) { return one.loss_mean; });
  columns.add("loss_worst", "Attention lost at the worst position", "1",
              [](const Policy& one) { return one.loss_worst; });
  columns.add("period", "Period of the loss over positions", "token", [](const Policy& one) { return one.period; });
  columns.add("kept_entries", "Share of entries kept at the workload's mean context", "1",
              [](const Policy& one) { return one.share.entries; });
  columns.add("entry_bytes_share", "Bytes of a kept entry against 16 bits, metadata included", "1",
              [](const Policy& one) { return one.share.bytes; });
  columns.add("refusal", "Why the loss bound forbids it", "1", [](const Policy& one) { return one.refusal; });
}

void write_variations(hdf5::OutputFile& file, const std::vector<Variation>& variations) {
  if (variations.empty()) return;
  Columns<Variation> columns(file, "/sensitivity", "variation", variations, "Changed assumption");
  columns.add("assumption", "What is changed", "1", [](const Variation& one) { return one.assumption; });
  columns.add("factor", "By what factor", "1", [](const Variation& one) { return one.factor; });
  columns.add("best", "Candidate chosen then; -1: none", "1", [](const Variation& one) { return one.best; });
  columns.add("value", "Of the goal then", "1", [](const Variation& one) { return one.value; });
  columns.add("flips", "1 where another GPU, rank count or policy is chosen", "1",
              [](const Variation& one) { return std::uint8_t{one.flips}; });
}

}  // namespace

void write_plan(const std::string& path, const Plan& plan, const PlanOutcome& outcome,
                const std::vector<Variation>& variations, const std::string& verdict) {
  hdf5::OutputFile file(path);
  file.attribute("/", "title", plan.name);
  file.attribute("/", "plan_yaml", plan.yaml);
  file.attribute("/", "verdict", verdict);
  file.attribute("/", "goal", to_string(plan.goal));
  file.attribute("/", "task", plan.task);
  file.attribute("/", "loss_mean_max", plan.loss.mean_max);
  file.attribute("/", "loss_worst_max", plan.loss.worst_max);
  file.attribute("/", "wanted_rate", outcome.wanted_rate);
  file.attribute("/", "best", outcome.best);
  if (!outcome.policies.empty()) {
    file.attribute("/", "loss_model", outcome.policies.front().loss_model);
    file.attribute("/", "loss_tokens", outcome.policies.front().loss_tokens);
  }
  write_candidates(file, outcome);
  write_policies(file, outcome);
  write_variations(file, variations);
  file.commit();
}

}  // namespace kvtide::planning
