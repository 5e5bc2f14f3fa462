#pragma once
// A plan file: the traffic, what it must keep, and what may be bought and set to keep it.
//
// `model`, `trace`, `workload`, `engine`, `loss`, `context_tokens` are those of an experiment file and go through its reader; `plan` says
// what is searched. Example: two GPU types, one rank, three policies, two batch limits: 12 candidates.

#include <cstdint>
#include <string>
#include <vector>

#include "planning/calibration.h"
#include "planning/price_list.h"

namespace kvtide::planning {

enum class Metric : std::uint8_t { ttft, tpot, latency };
[[nodiscard]] std::string to_string(Metric value);

/// `ttft_p95: "500 ms"`: at least 95 % of the requests are that fast.
struct Objective {
  Metric metric = Metric::ttft;
  std::int64_t percentile = 95;  ///< 50, 90, 95, 99
  double seconds = 0;
  [[nodiscard]] std::string name() const;  ///< "ttft_p95"
};

/// How much a task bears. A fact that must be found wherever it stands is lost with the worst position; a summary with the mean.
struct LossBound {
  double mean_max = 1;
  double worst_max = 1;
};

/// Bounds of a kind of task: ours to choose, no measurement behind them; `loss:` of the plan replaces each.
/// retrieval 0.02 / 0.10, code 0.02 / 0.20, chat 0.05 / 0.40, summarization 0.10 / 1 (mean / worst, shares of attention).
[[nodiscard]] LossBound bound_of_task(const std::string& task);

/// One way to treat the cache, block size included.
struct PolicyChoice {
  std::string label;
  std::string yaml;  ///< value of `compression`, one line
  std::vector<std::pair<std::string, std::string>> sets;
};

/// A GPU type to choose among.
struct GpuType {
  std::string name;     ///< its profile's own, once in a plan: what is shown, and what prices are given by
  std::string profile;  ///< what the file says: a name, or a path beside the plan file
};

enum class Goal : std::uint8_t { cost, gpus, rate };
[[nodiscard]] std::string to_string(Goal value);

struct Plan {
  std::string name, path, yaml, base_folder;
  std::string overrides;              ///< `--set`, a line each
  std::string model;                  ///< as written; a path is beside the plan file
  std::string weights = "published";  ///< or the format that its linear layers are to have
  std::string experiment_head;        ///< the shared sections as YAML, each key a line
  double rate = 0;                    ///< requests/s in the mean hour; 0: that of the workload
  double peak = 1;                    ///< busiest hour against the mean one
  std::int64_t spare = 0;             ///< replicas beyond those needed: 1 is N+1
  std::int64_t num_gpus = 0;          ///< at most; 0: no limit. Goal rate: exactly as many as fit in it
  std::int64_t sample_requests = 0;
  std::vector<GpuType> gpus;
  std::vector<std::int64_t> tensor_parallel, max_num_seqs;
  std::vector<PolicyChoice> policies;
  std::vector<Objective> objectives;
  std::string task;
  LossBound loss;
  Goal goal = Goal::cost;
  PriceList prices;
  Calibration calibration;  ///< of the user's own server

  [[nodiscard]] std::size_t num_candidates() const {
    return gpus.size() * tensor_parallel.size() * max_num_seqs.size() * policies.size();
  }
};

/// Most candidates of a plan.
inline constexpr std::size_t kMaxCandidates = 20'000;

/// @param sets  `--set` overrides  @throws InputError with every problem of the file, one a line
[[nodiscard]] Plan load_plan(const std::string& path,
                             const std::vector<std::pair<std::string, std::string>>& sets = {});
[[nodiscard]] Plan parse_plan(const std::string& yaml, const std::string& path, const std::string& base_folder,
                              const std::vector<std::pair<std::string, std::string>>& sets = {});

}  // namespace kvtide::planning
