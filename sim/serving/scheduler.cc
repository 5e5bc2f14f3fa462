#include "serving/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"

namespace kvtide::serving {

void EngineSettings::validate() const {
  const auto require = [](bool is_good, const char* name, auto value, const char* allowed) {
    if (!is_good) throw InputError(fmt::format("engine: {} {}: expected {}", name, value, allowed));
  };
  require(num_blocks >= 2, "num_blocks", num_blocks, ">= 2");
  require(block_size >= 1 && block_size <= 65536, "block_size", block_size, "1..65536");
  require(max_num_seqs >= 1, "max_num_seqs", max_num_seqs, ">= 1");
  require(max_num_batched_tokens >= 1, "max_num_batched_tokens", max_num_batched_tokens, ">= 1");
  require(long_prefill_threshold >= 0, "long_prefill_threshold", long_prefill_threshold, ">= 0");
  require(growth.keep_ratio > 0 && growth.keep_ratio <= 1, "keep_ratio", growth.keep_ratio, "(0, 1]");
  require(growth.always_kept >= 0, "always_kept", growth.always_kept, ">= 0");
  require(growth.interval >= 1, "interval", growth.interval, ">= 1");
  require(growth.budget >= 0, "budget", growth.budget, ">= 0");
  require(watermark >= 0 && watermark < 1, "watermark", watermark, "[0, 1)");
}

Scheduler::Scheduler(const EngineSettings& settings, std::int64_t shared_block_tokens)
    : settings_((settings.validate(), settings)), pool_(settings.num_blocks) {
  if (shared_block_tokens % settings.block_size != 0) {
    throw InputError(
        fmt::format("engine: block_size {}: the request trace names prefixes of {} tokens, which is no "
                    "multiple of it",
                    settings.block_size, shared_block_tokens));
  }
  blocks_per_id_ = shared_block_tokens / settings.block_size;
}

void Scheduler::add(std::size_t index, Request request) {
  const std::int64_t needed = ceil_div(request.input_tokens + request.output_tokens - 1, settings_.block_size);
  if (needed > pool_.num_usable()) {
    throw InputError(
        fmt::format("request {}: {} + {} tokens need {} blocks of {} tokens, the cache has {}: short by {}", index,
                    request.input_tokens, request.output_tokens, needed, settings_.block_size, pool_.num_usable(),
                    needed - pool_.num_usable()));
  }
  SequenceId id = sequences_.size();
  if (unused_.empty()) {
    sequences_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  Sequence& sequence = sequences_[id];
  sequence.index = index;
  sequence.request = std::move(request);
  sequence.computed = sequence.generated = sequence.scheduled = sequence.keyed = 0;
  sequence.is_compressed = false;
  sequence.blocks.clear();
  sequence.former.clear();
  waiting_.push_back(id);
}

bool Scheduler::is_shared(const Sequence& sequence, std::int64_t block) const {
  return blocks_per_id_ > 0 &&
         block / blocks_per_id_ < static_cast<std::int64_t>(sequence.request.shared_blocks.size());
}

/// Shared blocks by their id, all others by the request that owns them.
BlockKey Scheduler::key_of(const Sequence& sequence, std::int64_t block) const {
  if (is_shared(sequence, block)) {
    const std::uint64_t id = sequence.request.shared_blocks[static_cast<std::size_t>(block / blocks_per_id_)];
    return mix64(id * static_cast<std::uint64_t>(blocks_per_id_) + static_cast<std::uint64_t>(block % blocks_per_id_)) |
           1;
  }
  return mix64(mix64(sequence.index + 1) + static_cast<std::uint64_t>(block)) | 1;
}

/// In the prefix cache; -1: not there. Nobody but the request itself can hit what is its own.
BlockId Scheduler::find_block(const Sequence& sequence, std::int64_t block) const {
  if (is_shared(sequence, block)) return pool_.find(key_of(sequence, block));
  if (block >= static_cast<std::int64_t>(sequence.former.size())) return -1;
  const BlockId former = sequence.former[static_cast<std::size_t>(block)];
  return pool_.key(former) == key_of(sequence, block) ? former : -1;
}

std::int64_t Scheduler::step_tokens(const Sequence& sequence, std::int64_t computed, std::int64_t budget) const {
  std::int64_t tokens = sequence.known() - computed;
  if (settings_.long_prefill_threshold > 0) tokens = std::min(tokens, settings_.long_prefill_threshold);
  return std::min(tokens, budget);
}

/// A step that compresses needs the room of what it is about to compress.
std::int64_t Scheduler::missing_blocks(const Sequence& sequence, std::int64_t tokens) const {
  const std::int64_t held =
      (sequence.is_compressed ? settings_.growth.held(sequence.computed) : sequence.computed) + tokens;
  const std::int64_t missing = ceil_div(held, settings_.block_size) - static_cast<std::int64_t>(sequence.blocks.size());
  return std::max<std::int64_t>(0, missing);
}

/// Blocks for `tokens` more. @return false, with nothing taken, when there are too few
bool Scheduler::grow(Sequence& sequence, std::int64_t tokens) {
  const std::int64_t missing = missing_blocks(sequence, tokens);
  if (missing > pool_.num_free()) return false;
  for (std::int64_t i = 0; i < missing; ++i) sequence.blocks.push_back(pool_.take());
  return true;
}

/// Full blocks are known from the moment they are scheduled.
void Scheduler::set_keys(Sequence& sequence, std::int64_t computed) {
  if (!settings_.prefix_caching || sequence.is_compressed) return;
  for (const std::int64_t full = computed / settings_.block_size; sequence.keyed < full; ++sequence.keyed) {
    if (!is_shared(sequence, sequence.keyed)) continue;  // its own: named when it is preempted, nobody asks before
    pool_.set_key(sequence.blocks[static_cast<std::size_t>(sequence.keyed)], key_of(sequence, sequence.keyed));
  }
}

void Scheduler::schedule(Sequence& sequence, std::int64_t tokens) {
  sequence.scheduled = tokens;
  set_keys(sequence, sequence.computed + tokens);
  ++shape_.num_rows;
  const CacheGrowth& growth = settings_.growth;
  const std::int64_t context = sequence.computed + tokens;
  if (growth.has_bursts()) {
    const std::int64_t before = sequence.is_compressed ? growth.compressed(sequence.computed) : 0;
    if (context == sequence.known()) shape_.compressed_tokens += growth.compressed(context) - before;
  }
  if (tokens == 1 && sequence.computed >= sequence.request.input_tokens) {
    ++shape_.num_decodes;
    shape_.decode_kv_tokens += (sequence.is_compressed ? growth.held(sequence.computed) : sequence.computed) + 1;
  } else {
    shape_.prefills.push_back({tokens, sequence.computed});
  }
}

/// Gives back the blocks that the policy has emptied. What other requests may share stays behind as it was: a compressed block is no
/// longer the same block.
void Scheduler::compress(Sequence& sequence) {
  sequence.is_compressed = true;
  if (!settings_.growth.frees_blocks()) return;
  const auto wanted =
      static_cast<std::size_t>(ceil_div(settings_.growth.held(sequence.computed), settings_.block_size));
  if (sequence.keyed > 0 && blocks_per_id_ > 0) {
    const auto is_own = [&](std::int64_t block) { return !is_shared(sequence, block); };
    std::vector<BlockId> own, shared;
    for (std::size_t i = 0; i < sequence.blocks.size(); ++i) {
      (is_own(static_cast<std::int64_t>(i)) ? own : shared).push_back(sequence.blocks[i]);
    }
    for (std::size_t i = shared.size(); i-- > 0;) pool_.release(shared[i]);
    while (own.size() < wanted && pool_.num_free() > 0) own.push_back(pool_.take());
    counters_.emptied_blocks +=
        static_cast<std::int64_t>(sequence.blocks.size()) - static_cast<std::int64_t>(std::max(own.size(), wanted));
    sequence.blocks = std::move(own);
  }
  sequence.keyed = 0;
  while (sequence.blocks.size() > wanted) {
    pool_.release(sequence.blocks.back());
    sequence.blocks.pop_back();
    ++counters_.emptied_blocks;
  }
}

void Scheduler::preempt_last() {
  const SequenceId id = running_.back();
  running_.pop_back();
  Sequence& sequence = sequences_[id];
  ++counters_.preemptions;
  counters_.lost_tokens += sequence.computed;
  for (std::int64_t block = 0; block < sequence.keyed; ++block) {
    if (!is_shared(sequence, block)) {
      pool_.set_own_key(sequence.blocks[static_cast<std::size_t>(block)], key_of(sequence, block));
    }
  }
  for (std::size_t i = sequence.blocks.size(); i-- > 0;) pool_.release(sequence.blocks[i]);
  sequence.former.swap(sequence.blocks);
  sequence.blocks.clear();
  sequence.computed = sequence.keyed = 0;
  sequence.is_compressed = false;
  waiting_.push_front(id);
}

/// With every running sequence at its full length too.
bool Scheduler::fits_to_its_end(const Sequence& sequence) const {
  const auto blocks = [&](const Sequence& one) {
    return ceil_div(one.request.input_tokens + one.request.output_tokens, settings_.block_size);
  };
  std::int64_t needed = blocks(sequence);
  for (const SequenceId id : running_) needed += blocks(sequences_[id]);
  return needed <= pool_.num_usable();
}

/// Tries the head of the waiting line. @return false when it must wait
bool Scheduler::admit(std::int64_t& budget) {
  Sequence& sequence = sequences_[waiting_.front()];
  if (settings_.reserve_output && !running_.empty() && !fits_to_its_end(sequence)) return false;
  hits_.clear();
  std::int64_t free_hits = 0;
  const std::int64_t num_looked_up = settings_.prefix_caching ? (sequence.known() - 1) / settings_.block_size : 0;
  for (std::int64_t block = 0; block < num_looked_up; ++block) {
    const BlockId found = find_block(sequence, block);
    if (found < 0) break;
    hits_.push_back(found);
    free_hits += pool_.is_free(found) ? 1 : 0;
  }
  const auto num_hits = static_cast<std::int64_t>(hits_.size());
  const std::int64_t computed = num_hits * settings_.block_size;
  const std::int64_t tokens = step_tokens(sequence, computed, budget);
  const std::int64_t reserved = settings_.reserve_full_input ? sequence.known() : computed + tokens;
  const std::int64_t needed = ceil_div(reserved, settings_.block_size) - num_hits + free_hits;
  const auto left_free =
      running_.empty() ? 0 : static_cast<std::int64_t>(settings_.watermark * static_cast<double>(settings_.num_blocks));
  if (needed + left_free > pool_.num_free()) return false;
  for (const BlockId block : hits_) pool_.share(block);
  sequence.blocks.assign(hits_.begin(), hits_.end());
  sequence.computed = computed;
  sequence.keyed = num_hits;
  if (!grow(sequence, tokens)) return false;  // unreachable: `needed` covers it
  counters_.prompt_blocks += num_looked_up;
  counters_.hit_blocks += num_hits;
  schedule(sequence, tokens);
  budget -= tokens;
  running_.push_back(waiting_.front());
  waiting_.pop_front();
  admitted_.push_back({sequence.index, computed});
  return true;
}

void Scheduler::admit_waiting(std::int64_t& budget) {
  while (!waiting_.empty() && budget > 0 && num_running() < settings_.max_num_seqs && admit(budget)) {
  }
}

const StepShape& Scheduler::begin_step() {
  shape_.prefills.clear();
  shape_.num_decodes = shape_.decode_kv_tokens = shape_.compressed_tokens = shape_.num_rows = 0;
  admitted_.clear();
  std::int64_t budget = settings_.max_num_batched_tokens;
  has_preempted_ = false;
  if (settings_.prefill_first) {
    for (const SequenceId id : running_) {
      Sequence& sequence = sequences_[id];
      if (sequence.known() - sequence.computed == 1 && sequence.computed >= sequence.request.input_tokens) continue;
      const std::int64_t tokens = step_tokens(sequence, sequence.computed, budget);
      if (tokens == 0 || !grow(sequence, tokens)) break;
      schedule(sequence, tokens);
      budget -= tokens;
    }
    admit_waiting(budget);
    if (shape_.num_rows > 0) return shape_;
  }
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = sequences_[running_[i]];
    const std::int64_t tokens = step_tokens(sequence, sequence.computed, budget);
    while (i < running_.size() && !grow(sequence, tokens)) {
      preempt_last();
      has_preempted_ = true;
    }
    if (i >= running_.size()) break;  // it was the last itself
    schedule(sequence, tokens);
    budget -= tokens;
  }
  if (!has_preempted_) admit_waiting(budget);
  return shape_;
}

std::int64_t Scheduler::repeatable_steps() const {
  if (has_preempted_ || shape_.num_decodes != num_running()) return 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const SequenceId id : running_) {
    const Sequence& sequence = sequences_[id];
    most = std::min(most, sequence.request.output_tokens - sequence.generated);
    // The step with a burst stands alone.
    if (settings_.growth.has_bursts() || settings_.growth.frees_blocks()) {
      most = std::min(most, std::max<std::int64_t>(1, settings_.growth.steps_to_burst(sequence.computed) - 1));
    }
  }
  const auto fits = [&](std::int64_t steps) {
    std::int64_t missing = 0;
    for (const SequenceId id : running_) missing += missing_blocks(sequences_[id], steps);
    return missing <= pool_.num_free();
  };
  if (fits(most)) return most;
  std::int64_t fitting = 1;
  while (most - fitting > 1) {
    const std::int64_t middle = fitting + (most - fitting) / 2;
    (fits(middle) ? fitting : most) = middle;
  }
  return fitting;
}

const std::vector<Advance>& Scheduler::finish_step(std::int64_t steps) {
  counters_.steps += steps;
  advances_.clear();
  if (steps > 1) {
    for (const SequenceId id : running_) {
      Sequence& sequence = sequences_[id];
      KVTIDE_ASSERT(grow(sequence, steps), "repeatable steps have their blocks");
      set_keys(sequence, sequence.computed + steps);
      sequence.scheduled = steps;
      sequence.generated += steps - 1;
    }
  }
  most_used_blocks_ = pool_.num_usable() - pool_.num_free();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const SequenceId id = running_[i];
    Sequence& sequence = sequences_[id];
    Advance advance{.request = sequence.index, .tokens = sequence.scheduled};
    sequence.computed += sequence.scheduled;
    advance.context_tokens = sequence.computed;
    if (sequence.scheduled > 0 && sequence.computed == sequence.known()) {
      ++sequence.generated;
      advance.has_token = true;
      advance.is_finished = sequence.generated == sequence.request.output_tokens;
    }
    if (sequence.scheduled > 0) advances_.push_back(advance);
    sequence.scheduled = 0;
    if (advance.is_finished) {
      for (std::size_t b = sequence.blocks.size(); b-- > 0;) pool_.release(sequence.blocks[b]);
      sequence.blocks.clear();
      unused_.push_back(id);
    } else {
      if (advance.has_token && (!sequence.is_compressed || settings_.growth.frees_blocks())) compress(sequence);
      running_[kept++] = id;
    }
  }
  running_.resize(kept);
  return advances_;
}

}  // namespace kvtide::serving
