#pragma once
// One engine of the fleet: its memory, its steps, and what a share of the traffic experiences on it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "gpu/gpu.h"
#include "gpu/iteration_model.h"
#include "model/model.h"
#include "planning/experience.h"
#include "planning/plan.h"
#include "planning/policy.h"
#include "planning/rate_bound.h"
#include "planning/traffic.h"
#include "serving/engine_settings.h"
#include "serving/machine_step_time.h"
#include "serving/memory_account.h"

namespace kvtide::planning {

/// What is assumed of a replica, to be varied.
struct Assumptions {
  double memory_overhead = 1;  ///< factor on activations and context; SGLang's own reserve, which holds both
  bool has_unlimited_cache = false;
  bool has_free_attention = false;  ///< entries cost nothing to read
  bool operator==(const Assumptions&) const = default;
};

/// Whether the cache's size hangs on Assumptions::memory_overhead: not where it is given, or SGLang's reserve is.
[[nodiscard]] bool assumes_memory_overhead(const experiment::ServingSetting& setting);

class Replica {
 public:
  /// @param run  the policy's, on this GPU type and number of ranks  @param gpu, policy, model  outlive this object
  /// @throws InputError  the weights or one request do not fit, with what is short
  Replica(experiment::Run run, const Policy& policy, const Model& model, gpu::Gpu& gpu, const Longest& longest,
          const Calibration& calibration, const Assumptions& assumptions = {});

  /// The engine's limit of running sequences. @throws InputError as the constructor
  void set_max_num_seqs(std::int64_t max_num_seqs);

  /// The same engine in a changed world; what a step costs stays. @throws InputError as the constructor
  void assume(const Assumptions& assumptions, const Longest& longest);

  /// Stops as soon as an objective is broken whatever follows; then the latencies are not known.
  [[nodiscard]] Experience serve(const serving::RequestTrace& requests, const std::vector<Objective>& objectives);
  /// Every request of the traffic, rescaled to `rate`, through `replicas` of this engine behind the router of `engine.routing`. Of round
  /// robin each replica is run by itself: nothing that one does reaches another. Stops like serve().
  /// @param rate  requests/s  @param replicas  >= 1
  [[nodiscard]] Experience serve_all(const Traffic& traffic, double rate, std::int64_t replicas,
                                     const std::vector<Objective>& objectives);
  /// Every request of the traffic alone, as on as many replicas as there are requests. Stops like serve().
  [[nodiscard]] Experience serve_alone(const Traffic& traffic, const std::vector<Objective>& objectives);
  /// Of the run: what is spent on one replica.
  [[nodiscard]] std::int64_t ranks() const { return run_.setting.tensor_parallel; }
  /// Whether beginnings of prompts may be found in the prefix cache.
  [[nodiscard]] bool has_hits(const Traffic& traffic) const;
  /// Requests/s > 0. No replica can serve more for long, however it batches (rate_bound.h). Shared blocks count as found, and as stored
  /// once. Approximation: attention costs at least what a batch of equal sequences that fills the cache pays an entry, and equal prompts
  /// of the mean length a prompt, less what mixed steps round away.
  [[nodiscard]] double rate_bound(const Traffic& traffic);

  [[nodiscard]] const serving::MemoryAccount& account() const { return account_; }
  [[nodiscard]] std::int64_t kv_tokens() const { return (engine_.num_blocks - 1) * engine_.block_size; }
  /// The longest prompt that fits alone, at most the model's. A prompt is whole in the cache before a policy evicts from it.
  [[nodiscard]] std::int64_t longest_context() const;

 private:
  void check_blocks(std::int64_t blocks) const;
  [[nodiscard]] const std::vector<StepCost>& step_costs();
  [[nodiscard]] double seconds_per_entry();
  [[nodiscard]] double seconds_per_prompt(double tokens);

  experiment::Run run_;
  const Policy& policy_;
  const Model& model_;
  gpu::Gpu& gpu_;
  Longest longest_;
  Assumptions assumptions_;
  experiment::CompressedShare share_;  // with this number of ranks
  serving::CacheGrowth growth_;
  serving::MemoryAccount account_;
  serving::EngineSettings engine_;
  std::int64_t captured_ = 0;
  Calibration calibration_;
  std::unique_ptr<serving::MachineStepTime> machine_;
  std::unique_ptr<CalibratedStepTime> step_time_;
  std::unique_ptr<gpu::IterationModel> attention_;  // what machine_ asks, by itself
  std::vector<StepCost> step_costs_;                // empty: not priced yet
};

}  // namespace kvtide::planning
