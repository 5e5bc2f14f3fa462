#pragma once
// Continuous batching by the rules of vLLM v1 (release 0.19.0, v1/core/sched/scheduler.py): no prefill and decode phases; every
// running request may advance from its computed to its known tokens within the step's token budget.
//
//  - Running requests first, in order of admission. One that needs a block when none is free preempts the last of the running list
//    (perhaps itself): its blocks are freed, what it generated stays known and is computed again, and it waits in front of all others.
//  - Then waiting requests, first come first served, unless this step preempted somebody: the head must fit `max_num_seqs` and, whole,
//    the free blocks; if it does not, nobody behind it is looked at.
//  - Where a policy evicts, what a preempted request had generated is computed again behind its compressed prompt, in as many tokens at
//    once as leave it in the blocks that it had needed before.
//  - Prefix cache: full blocks only, also of generated tokens, at most known - 1 tokens; known as soon as they are scheduled.
//
// What other engines do otherwise are switches (engine_settings.h): priorities, reservations for tokens to come, host memory for
// those who give way. A transferred request comes with its prompt's cache and needs blocks for it, but no step.
//
// Example: budget 8, a decode and a prompt of 12 tokens: step 1 computes 1 + 7, step 2 computes 1 + 5 and the prompt's first token.

#include <cstdint>
#include <deque>
#include <vector>

#include "serving/block_pool.h"
#include "serving/engine_settings.h"
#include "serving/output_estimate.h"
#include "serving/request.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

/// What one step did to a request.
struct Advance {
  std::size_t request = 0;          ///< index given to add()
  std::int64_t tokens = 0;          ///< computed in this step
  bool has_token = false;           ///< a token was generated
  bool is_finished = false;         ///< that was its last one
  std::int64_t context_tokens = 0;  ///< in the cache during the step
};

struct Admission {
  std::size_t request = 0;
  std::int64_t cached_tokens = 0;  ///< found in the prefix cache
  bool is_again = false;           ///< it had been preempted
};

struct SchedulerCounters {
  std::int64_t preemptions = 0;
  std::int64_t lost_tokens = 0;    ///< computed, then freed by a preemption
  std::int64_t prompt_blocks = 0;  ///< full blocks looked up at admissions
  std::int64_t hit_blocks = 0;     ///< of those, found in the prefix cache
  std::int64_t steps = 0;
  std::int64_t emptied_blocks = 0;  ///< given back by compression while their request went on
  std::int64_t swaps = 0;           ///< preemptions whose cache went to host memory; not lost
};

class Scheduler {
 public:
  /// @param shared_block_tokens  tokens of one id in Request::shared_blocks; a multiple of the block size, or 0
  /// @throws InputError
  Scheduler(const EngineSettings& settings, std::int64_t shared_block_tokens);

  /// Puts a request at the end of the waiting line. @param index  of its own: no other request had it
  /// @throws InputError when it can never run: more blocks than there are
  void add(std::size_t index, Request request);

  [[nodiscard]] bool is_idle() const { return waiting_.empty() && running_.empty(); }
  [[nodiscard]] std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  [[nodiscard]] std::int64_t num_free_blocks() const { return pool_.num_free(); }
  [[nodiscard]] const SchedulerCounters& counters() const { return counters_; }

  /// Chooses what the next step computes; empty when nobody can run. finish_step() must follow. Valid until the next call.
  [[nodiscard]] const StepShape& begin_step();
  /// Requests admitted by the last begin_step(), for the first or a further time.
  [[nodiscard]] const std::vector<Admission>& admitted() const { return admitted_; }
  /// How many steps equal to the one begun may follow one another from it on, unless an arrival changes the line: more than 1
  /// where everybody decodes, nobody can be admitted, nobody finishes before the last of them and the blocks suffice.
  [[nodiscard]] std::int64_t repeatable_steps() const;
  /// Ends the step: tokens appear, finished requests free their blocks. In order of the batch; valid until the next call.
  /// @param steps  that many equal ones, 1..repeatable_steps()
  [[nodiscard]] const std::vector<Advance>& finish_step(std::int64_t steps = 1);
  /// In the step that ended last.
  [[nodiscard]] std::int64_t most_used_blocks() const { return most_used_blocks_; }

 private:
  struct Sequence {
    std::size_t index = 0;
    Request request;
    std::int64_t computed = 0, generated = 0;
    std::int64_t scheduled = 0;  // tokens of the present step
    std::int64_t keyed = 0;      // blocks that have their key
    // In host memory or on the wire: comes back at its admission instead of being computed.
    bool has_given_way = false;
    std::int64_t restorable = 0;
    std::int64_t blocks_on_host = 0;
    std::vector<BlockId> blocks;         // of layers that keep the whole context
    std::vector<BlockId> window_blocks;  // of the others
    std::vector<BlockId> former;         // before it was preempted; some may still hold what they held
    [[nodiscard]] std::int64_t known() const { return request.input_tokens + generated; }
    /// Its prompt is complete and the policy has been at it.
    [[nodiscard]] bool is_compressed() const { return computed >= request.input_tokens; }
  };
  using SequenceId = std::size_t;

  [[nodiscard]] bool is_shared(const Sequence& sequence, std::int64_t block) const;
  [[nodiscard]] BlockKey key_of(const Sequence& sequence, std::int64_t block) const;
  [[nodiscard]] BlockId find_block(const Sequence& sequence, std::int64_t block) const;
  [[nodiscard]] std::int64_t held_entries(const Sequence& sequence) const;
  [[nodiscard]] std::int64_t num_window_blocks(const Sequence& sequence, std::int64_t tokens, std::int64_t steps) const;
  [[nodiscard]] std::int64_t missing_blocks(const Sequence& sequence, std::int64_t tokens,
                                            std::int64_t steps = 1) const;
  [[nodiscard]] std::int64_t most_blocks(const Request& request) const;
  [[nodiscard]] std::int64_t most_entries(const Sequence& sequence, std::int64_t context) const;
  void release_blocks(const Sequence& sequence);
  void set_keys(Sequence& sequence, std::int64_t computed);
  void compress(Sequence& sequence);
  [[nodiscard]] std::int64_t step_tokens(const Sequence& sequence, std::int64_t computed, std::int64_t budget) const;
  bool grow(Sequence& sequence, std::int64_t tokens, std::int64_t steps = 1);
  void schedule(Sequence& sequence, std::int64_t tokens);
  void count(const Sequence& sequence, std::int64_t sign);
  [[nodiscard]] bool decodes_next(const Sequence& sequence) const;
  void wait_in_line(SequenceId id);
  void give_way(std::size_t place);
  [[nodiscard]] std::size_t who_gives_way() const;
  void retract_until_decodes_fit();
  [[nodiscard]] bool fits_to_its_end(const Sequence& sequence) const;
  [[nodiscard]] double kept_free(double share, std::int64_t steps) const;
  [[nodiscard]] std::int64_t num_looked_up(const Sequence& sequence) const;
  [[nodiscard]] bool fits_by_estimate(const Sequence& sequence, std::int64_t free_hits);
  [[nodiscard]] bool looks_each_step() const;
  bool admit_restored(Sequence& sequence, std::int64_t& budget);
  [[nodiscard]] std::int64_t left_free() const;
  void admit_waiting(std::int64_t& budget);
  bool admit(std::int64_t& budget);

  EngineSettings settings_;
  std::int64_t blocks_per_id_ = 0;
  BlockPool pool_;
  std::vector<Sequence> sequences_;  // [SequenceId]; slots of finished ones are used again
  std::vector<SequenceId> unused_;
  std::deque<SequenceId> waiting_;
  std::vector<SequenceId> running_;
  std::vector<Admission> admitted_;
  std::vector<Advance> advances_;
  std::vector<BlockId> hits_;
  StepShape shape_;
  bool has_preempted_ = false;
  std::int64_t free_host_blocks_ = 0;
  // Reservation::estimated_output
  OutputEstimate estimate_;
  bool is_line_closed_ = false;  // until somebody leaves the batch
  double refused_tokens_ = 0;    // that the head of the line asked for in this step; 0: the estimate refused nobody
  std::int64_t most_used_blocks_ = 0;
  SchedulerCounters counters_;
};

}  // namespace kvtide::serving
