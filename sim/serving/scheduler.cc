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
namespace {

constexpr std::int64_t kMostOutputCounted = 4096;  // tokens: CLIP_MAX_NEW_TOKENS of SGLang's schedule policy

/// Largest of 1..most for which `holds`, which it does for 1 and, once it does not, never again.
template <typename Predicate>
std::int64_t last_that(std::int64_t most, const Predicate& holds) {
  if (holds(most)) return most;
  std::int64_t good = 1;
  while (most - good > 1) {
    const std::int64_t middle = good + (most - good) / 2;
    (holds(middle) ? good : most) = middle;
  }
  return good;
}

}  // namespace

Scheduler::Scheduler(const EngineSettings& settings, std::int64_t shared_block_tokens)
    : settings_((settings.validate(), settings)), pool_(settings.num_blocks), free_host_blocks_(settings.host_blocks) {
  if (shared_block_tokens % settings.block_size != 0) {
    throw InputError(
        fmt::format("engine: block_size {}: the request trace names prefixes of {} tokens, which is no "
                    "multiple of it",
                    settings.block_size, shared_block_tokens));
  }
  blocks_per_id_ = shared_block_tokens / settings.block_size;
}

void Scheduler::add(std::size_t index, Request request) {
  const std::int64_t needed = most_blocks(request);
  if (needed > pool_.num_usable()) {
    throw InputError(
        fmt::format("request {}: {} + {} tokens need {} blocks of {} tokens, the cache has {}: short by {}", index,
                    request.input_tokens, request.output_tokens, needed, settings_.block_size, pool_.num_usable(),
                    needed - pool_.num_usable()));
  }
  if (is_idle()) estimate_ = {};
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
  sequence.has_given_way = false;
  sequence.restorable = sequence.blocks_on_host = 0;
  sequence.blocks.clear();
  sequence.window_blocks.clear();
  sequence.former.clear();
  if (sequence.request.is_transferred) {
    sequence.generated = 1;
    sequence.restorable = sequence.request.input_tokens;
  }
  wait_in_line(id);
}

/// At its place: the end, or behind the last that does not come after it.
void Scheduler::wait_in_line(SequenceId id) {
  auto place = waiting_.end();
  if (settings_.policy == SchedulingPolicy::priority) {
    const auto rank = [&](SequenceId one) {
      return std::pair(sequences_[one].request.priority, sequences_[one].index);
    };
    while (place != waiting_.begin() && rank(*(place - 1)) > rank(id)) --place;
  }
  waiting_.insert(place, id);
}

/// The last id may name fewer tokens than it has room for: a block that reaches beyond the prompt holds what was generated.
bool Scheduler::is_shared(const Sequence& sequence, std::int64_t block) const {
  return blocks_per_id_ > 0 &&
         block / blocks_per_id_ < static_cast<std::int64_t>(sequence.request.shared_blocks.size()) &&
         (block + 1) * settings_.block_size <= sequence.request.input_tokens;
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
  if (const std::int64_t prompt = sequence.request.input_tokens; settings_.growth.frees_blocks()) {
    const CacheGrowth& growth = settings_.growth;
    tokens =
        std::min(tokens, computed < prompt ? prompt - computed
                                           : growth.most_entries(prompt, sequence.known()) - growth.held(computed));
  }
  if (settings_.long_prefill_threshold > 0) tokens = std::min(tokens, settings_.long_prefill_threshold);
  return std::min(tokens, budget);
}

/// Of layers that keep the whole context.
std::int64_t Scheduler::held_entries(const Sequence& sequence) const {
  return sequence.is_compressed() ? settings_.growth.held(sequence.computed) : sequence.computed;
}

/// In the last of `steps` steps that compute `tokens` together.
std::int64_t Scheduler::num_window_blocks(const Sequence& sequence, std::int64_t tokens, std::int64_t steps) const {
  const std::int64_t last = steps > 1 ? 1 : tokens;
  return settings_.growth.window_blocks(sequence.computed + tokens - last, last, settings_.block_size);
}

/// A step that compresses needs the room of what it is about to compress. Less than 0 where windows have moved on.
std::int64_t Scheduler::missing_blocks(const Sequence& sequence, std::int64_t tokens, std::int64_t steps) const {
  const std::int64_t whole = settings_.growth.whole_blocks(held_entries(sequence) + tokens, settings_.block_size) -
                             static_cast<std::int64_t>(sequence.blocks.size());
  return std::max<std::int64_t>(0, whole) + num_window_blocks(sequence, tokens, steps) -
         static_cast<std::int64_t>(sequence.window_blocks.size());
}

std::int64_t Scheduler::most_blocks(const Request& request) const {
  return settings_.growth.most_blocks(request.input_tokens, request.input_tokens + request.output_tokens - 1,
                                      settings_.max_num_batched_tokens, settings_.block_size);
}

/// From now on, up to `context` tokens.
std::int64_t Scheduler::most_entries(const Sequence& sequence, std::int64_t context) const {
  const bool has_prompt = std::max(sequence.computed, sequence.restorable) >= sequence.request.input_tokens;
  return has_prompt ? settings_.growth.most_decoding(context)
                    : settings_.growth.most_entries(sequence.request.input_tokens, context);
}

/// Blocks for `tokens` more in `steps` steps. @return false, with nothing taken, when there are too few
bool Scheduler::grow(Sequence& sequence, std::int64_t tokens, std::int64_t steps) {
  if (missing_blocks(sequence, tokens, steps) > pool_.num_free()) return false;
  const auto in_windows = static_cast<std::size_t>(num_window_blocks(sequence, tokens, steps));
  while (sequence.window_blocks.size() > in_windows) {
    pool_.release(sequence.window_blocks.back());
    sequence.window_blocks.pop_back();
  }
  while (sequence.window_blocks.size() < in_windows) sequence.window_blocks.push_back(pool_.take());
  const auto whole =
      static_cast<std::size_t>(settings_.growth.whole_blocks(held_entries(sequence) + tokens, settings_.block_size));
  while (sequence.blocks.size() < whole) sequence.blocks.push_back(pool_.take());
  return true;
}

/// The last ones first, so that a prompt's beginning is remembered longest.
void Scheduler::release_blocks(const Sequence& sequence) {
  for (const BlockId block : sequence.window_blocks) pool_.release(block);
  for (std::size_t i = sequence.blocks.size(); i-- > 0;) pool_.release(sequence.blocks[i]);
}

/// Full blocks are known from the moment they are scheduled, generated tokens as those of the prompt; not where a policy has moved
/// what they hold.
void Scheduler::set_keys(Sequence& sequence, std::int64_t computed) {
  const CacheGrowth& growth = settings_.growth;
  if (!settings_.prefix_caching || !growth.has_whole_layers) return;
  if (sequence.is_compressed() && growth.frees_blocks()) return;
  for (const std::int64_t full = computed / settings_.block_size; sequence.keyed < full; ++sequence.keyed) {
    if (!is_shared(sequence, sequence.keyed)) continue;  // its own: named when it is preempted, nobody asks before
    pool_.set_key(sequence.blocks[static_cast<std::size_t>(sequence.keyed)], key_of(sequence, sequence.keyed));
  }
}

void Scheduler::schedule(Sequence& sequence, std::int64_t tokens) {
  sequence.scheduled = tokens;
  set_keys(sequence, sequence.computed + tokens);
  count(sequence, 1);
}

bool Scheduler::decodes_next(const Sequence& sequence) const {
  return sequence.known() - sequence.computed == 1 && sequence.computed >= sequence.request.input_tokens;
}

/// Puts what the sequence computes into the step's shape, or takes it out again. @param sign  1 or -1
void Scheduler::count(const Sequence& sequence, std::int64_t sign) {
  shape_.num_rows += sign;
  const CacheGrowth& growth = settings_.growth;
  const std::int64_t tokens = sequence.scheduled;
  const std::int64_t context = sequence.computed + tokens;
  if (growth.has_bursts()) {
    const std::int64_t before = sequence.is_compressed() ? growth.compressed(sequence.computed) : 0;
    if (context >= sequence.request.input_tokens) {
      shape_.compressed_tokens += sign * (growth.compressed(context) - before);
    }
  }
  if (decodes_next(sequence)) {
    shape_.num_decodes += sign;
    shape_.decode_kv_tokens += sign * (held_entries(sequence) + 1);
  } else if (sign > 0) {
    shape_.prefills.push_back({tokens, held_entries(sequence)});
  } else {
    const auto chunk = std::ranges::find_if(shape_.prefills, [&](const PrefillChunk& one) {
      return one.tokens == tokens && one.kv_before == held_entries(sequence);
    });
    KVTIDE_ASSERT(chunk != shape_.prefills.end(), "what was scheduled is in the step's shape");
    shape_.prefills.erase(chunk);
  }
}

/// Gives back the blocks that the policy has emptied. What other requests may share stays behind as it was: a compressed block is no
/// longer the same block.
void Scheduler::compress(Sequence& sequence) {
  const auto wanted = static_cast<std::size_t>(
      settings_.growth.whole_blocks(settings_.growth.held(sequence.computed), settings_.block_size));
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

/// Place in the running list.
std::size_t Scheduler::who_gives_way() const {
  std::size_t last = running_.size() - 1;
  const auto rank = [&](std::size_t place) {
    const Sequence& sequence = sequences_[running_[place]];
    return settings_.policy == SchedulingPolicy::priority
               ? std::pair(sequence.request.priority, static_cast<std::int64_t>(sequence.index))
               : std::pair(-sequence.generated, sequence.request.input_tokens);
  };
  if (settings_.policy == SchedulingPolicy::fcfs && settings_.reservation != Reservation::estimated_output) return last;
  for (std::size_t place = 0; place < running_.size(); ++place) {
    if (rank(place) > rank(last)) last = place;
  }
  return last;
}

/// Frees the blocks of a running sequence, to host memory where there is room. @param place  in the running list
void Scheduler::give_way(std::size_t place) {
  const SequenceId id = running_[place];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
  Sequence& sequence = sequences_[id];
  ++counters_.preemptions;
  is_line_closed_ = false;
  sequence.has_given_way = true;
  const auto num_blocks = static_cast<std::int64_t>(sequence.blocks.size() + sequence.window_blocks.size());
  if (num_blocks > 0 && num_blocks <= free_host_blocks_ && sequence.computed > 0) {
    ++counters_.swaps;
    free_host_blocks_ -= num_blocks;
    sequence.restorable = sequence.computed;
    sequence.blocks_on_host = num_blocks;
    shape_.swapped_tokens += held_entries(sequence) + settings_.growth.window_entries(sequence.computed);
  } else {
    counters_.lost_tokens += sequence.computed;
  }
  for (std::int64_t block = 0; block < sequence.keyed; ++block) {
    if (!is_shared(sequence, block)) {
      pool_.set_own_key(sequence.blocks[static_cast<std::size_t>(block)], key_of(sequence, block));
    }
  }
  release_blocks(sequence);
  sequence.former.swap(sequence.blocks);
  sequence.blocks.clear();
  sequence.window_blocks.clear();
  sequence.computed = sequence.keyed = sequence.scheduled = 0;
  if (settings_.reservation == Reservation::estimated_output) {
    waiting_.push_back(id);
  } else if (settings_.policy == SchedulingPolicy::priority) {
    wait_in_line(id);
  } else {
    waiting_.push_front(id);
  }
}

/// SGLang's retraction: before anybody decodes, and never the last one.
void Scheduler::retract_until_decodes_fit() {
  const auto missing = [&] {
    std::int64_t blocks = 0;
    for (const SequenceId id : running_) {
      if (decodes_next(sequences_[id])) blocks += missing_blocks(sequences_[id], 1);
    }
    return blocks;
  };
  while (running_.size() > 1 && missing() > pool_.num_free()) {
    give_way(who_gives_way());
    has_preempted_ = true;
  }
  if (!has_preempted_) {
    estimate_.on_decode(1);
    return;
  }
  std::int64_t generated = 0, whole = 0;
  for (const SequenceId id : running_) {
    generated += sequences_[id].generated;
    whole += sequences_[id].request.output_tokens;
  }
  estimate_.on_retraction(num_running(), generated, whole);
}

/// With every running sequence at its full length too.
bool Scheduler::fits_to_its_end(const Sequence& sequence) const {
  const auto blocks = [&](const Sequence& one) {
    const std::int64_t context = one.request.input_tokens + one.request.output_tokens;
    const std::int64_t last = std::min(context, settings_.max_num_batched_tokens);
    return settings_.growth.whole_blocks(most_entries(one, context), settings_.block_size) +
           settings_.growth.window_blocks(context - last, last, settings_.block_size);
  };
  std::int64_t needed = blocks(sequence);
  for (const SequenceId id : running_) needed += blocks(sequences_[id]);
  return needed <= pool_.num_usable();
}

/// Of what the running ones may still generate, once they have generated `steps` tokens more. Who computes its prompt in this very step counts
/// whole, with the page that rounding may take.
double Scheduler::kept_free(double share, std::int64_t steps) const {
  double tokens = 0;
  for (const SequenceId id : running_) {
    const Sequence& sequence = sequences_[id];
    const std::int64_t known = sequence.known() + steps;
    const std::int64_t output =
        std::min(sequence.request.output_tokens - sequence.generated - steps, kMostOutputCounted);
    const std::int64_t to_come = std::max<std::int64_t>(
        0, most_entries(sequence, known + output) - (sequence.is_compressed() ? settings_.growth.held(known) : known));
    const bool is_new = sequence.scheduled > 0 && !decodes_next(sequence);
    tokens += is_new ? static_cast<double>(to_come + settings_.block_size) : share * static_cast<double>(to_come);
  }
  return tokens;
}

/// What it must compute of its prompt, its output and a page; beside them what is kept free for the running ones. Free tokens, without
/// the blocks that it hits, must be more than that (PrefillAdder.add_one_req).
bool Scheduler::fits_by_estimate(const Sequence& sequence, std::int64_t free_hits) {
  const std::int64_t to_come = std::min(sequence.request.output_tokens - sequence.generated, kMostOutputCounted);
  const std::int64_t in_windows = settings_.growth.window_entries(sequence.known() + to_come);
  const std::int64_t found = static_cast<std::int64_t>(hits_.size()) - free_hits;
  const auto own = static_cast<double>(most_entries(sequence, sequence.known() + to_come) + in_windows +
                                       (1 - found) * settings_.block_size);
  const bool fits =
      own + kept_free(estimate_.share(), 0) < static_cast<double>(pool_.num_free() * settings_.block_size);
  if (!fits) refused_tokens_ = own;
  return fits;
}

/// SGLang (batch_is_full) looks at nobody behind a refusal before the batch has shrunk; with priorities, as somebody might give way, and
/// with windows it looks in each step.
bool Scheduler::looks_each_step() const {
  return settings_.reservation != Reservation::estimated_output || settings_.policy == SchedulingPolicy::priority ||
         settings_.growth.window > 0;
}

/// Blocks that an admission must leave.
std::int64_t Scheduler::left_free() const {
  return running_.empty() ? 0
                          : static_cast<std::int64_t>(settings_.watermark * static_cast<double>(settings_.num_blocks));
}

/// From host memory or another engine: blocks for what it held and for its next token. @return false when it must wait
bool Scheduler::admit_restored(Sequence& sequence, std::int64_t& budget) {
  const std::int64_t computed = sequence.restorable;
  const std::int64_t held = computed >= sequence.request.input_tokens ? settings_.growth.held(computed) : computed;
  const std::int64_t tokens = step_tokens(sequence, computed, budget);
  const std::int64_t needed = settings_.growth.whole_blocks(held + tokens, settings_.block_size) +
                              settings_.growth.window_blocks(computed, tokens, settings_.block_size);
  if (needed + left_free() > pool_.num_free()) return false;
  sequence.blocks.clear();
  sequence.computed = computed;
  sequence.keyed = 0;
  sequence.restorable = 0;
  if (!grow(sequence, tokens)) return false;  // unreachable: just compared
  if (sequence.blocks_on_host > 0) shape_.swapped_tokens += held + settings_.growth.window_entries(computed);
  free_host_blocks_ += sequence.blocks_on_host;
  sequence.blocks_on_host = 0;
  schedule(sequence, tokens);
  budget -= tokens;
  running_.push_back(waiting_.front());
  waiting_.pop_front();
  admitted_.push_back({sequence.index, 0, sequence.has_given_way});
  return true;
}

/// Blocks that the prefix cache is asked for: the last token is always computed.
std::int64_t Scheduler::num_looked_up(const Sequence& sequence) const {
  const bool is_looked_up = settings_.prefix_caching && settings_.growth.has_whole_layers && sequence.restorable == 0;
  // A prompt is compressed in the step that completes it.
  const std::int64_t tokens = settings_.growth.frees_blocks() ? sequence.request.input_tokens : sequence.known();
  return is_looked_up ? (tokens - 1) / settings_.block_size : 0;
}

/// Tries the head of the waiting line. @return false when it must wait
bool Scheduler::admit(std::int64_t& budget) {
  Sequence& sequence = sequences_[waiting_.front()];
  if (!running_.empty() && settings_.reservation == Reservation::whole_output && !fits_to_its_end(sequence))
    return false;
  hits_.clear();
  std::int64_t free_hits = 0;
  for (std::int64_t block = 0; block < num_looked_up(sequence); ++block) {
    const BlockId found = find_block(sequence, block);
    if (found < 0) break;
    hits_.push_back(found);
    free_hits += pool_.is_free(found) ? 1 : 0;
  }
  if (!running_.empty() && settings_.reservation == Reservation::estimated_output &&
      !fits_by_estimate(sequence, free_hits)) {
    return false;
  }
  if (sequence.restorable > 0) return admit_restored(sequence, budget);
  const auto num_hits = static_cast<std::int64_t>(hits_.size());
  const std::int64_t computed = num_hits * settings_.block_size;
  const std::int64_t tokens = step_tokens(sequence, computed, budget);
  const std::int64_t reserved =
      settings_.reserve_full_input ? most_entries(sequence, sequence.known()) : computed + tokens;
  const std::int64_t needed = settings_.growth.whole_blocks(reserved, settings_.block_size) - num_hits + free_hits +
                              settings_.growth.window_blocks(computed, tokens, settings_.block_size);
  if (needed + left_free() > pool_.num_free()) return false;
  for (const BlockId block : hits_) pool_.share(block);
  sequence.blocks.assign(hits_.begin(), hits_.end());
  sequence.computed = computed;
  sequence.keyed = num_hits;
  if (!grow(sequence, tokens)) return false;  // unreachable: `needed` covers it
  counters_.prompt_blocks += num_looked_up(sequence);
  counters_.hit_blocks += num_hits;
  schedule(sequence, tokens);
  budget -= tokens;
  running_.push_back(waiting_.front());
  waiting_.pop_front();
  admitted_.push_back({sequence.index, computed, sequence.has_given_way});
  return true;
}

void Scheduler::admit_waiting(std::int64_t& budget) {
  const bool is_batch = !running_.empty();
  while (!waiting_.empty() && budget > 0 && num_running() < settings_.max_num_seqs && !is_line_closed_) {
    if (admit(budget)) continue;
    is_line_closed_ = is_batch && !looks_each_step();
    break;
  }
}

const StepShape& Scheduler::begin_step() {
  shape_.prefills.clear();
  shape_.num_decodes = shape_.decode_kv_tokens = shape_.compressed_tokens = shape_.num_rows = 0;
  shape_.swapped_tokens = 0;
  admitted_.clear();
  std::int64_t budget = settings_.max_num_batched_tokens;
  has_preempted_ = false;
  refused_tokens_ = 0;
  if (settings_.prefill_first) {
    for (const SequenceId id : running_) {
      Sequence& sequence = sequences_[id];
      if (decodes_next(sequence)) continue;
      const std::int64_t tokens = step_tokens(sequence, sequence.computed, budget);
      if (tokens == 0 || !grow(sequence, tokens)) break;
      schedule(sequence, tokens);
      budget -= tokens;
    }
    admit_waiting(budget);
    if (shape_.num_rows > 0) return shape_;
  }
  if (settings_.reservation == Reservation::estimated_output) retract_until_decodes_fit();
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    const SequenceId id = running_[i];
    Sequence& sequence = sequences_[id];
    const std::int64_t tokens = step_tokens(sequence, sequence.computed, budget);
    bool is_out = false;
    while (!is_out && !grow(sequence, tokens)) {
      const std::size_t place = who_gives_way();
      Sequence& other = sequences_[running_[place]];
      is_out = running_[place] == id;
      if (other.scheduled > 0) {  // earlier in this step: its tokens are another's
        count(other, -1);
        budget += other.scheduled;
      }
      if (place < i) --i;
      give_way(place);
      has_preempted_ = true;
    }
    if (is_out) break;  // it was the one itself
    schedule(sequence, tokens);
    budget -= tokens;
  }
  if (!has_preempted_ && !settings_.prefill_first) admit_waiting(budget);
  return shape_;
}

std::int64_t Scheduler::repeatable_steps() const {
  if (has_preempted_ || !admitted_.empty() || shape_.num_decodes != num_running()) return 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const SequenceId id : running_) {
    const Sequence& sequence = sequences_[id];
    most = std::min(most, sequence.request.output_tokens - sequence.generated);
    // The step with a burst stands alone.
    if (settings_.growth.has_bursts() || settings_.growth.frees_blocks()) {
      most = std::min(most, std::max<std::int64_t>(1, settings_.growth.steps_to_burst(sequence.computed) - 1));
    }
  }
  if (refused_tokens_ > 0 && looks_each_step()) {
    // The estimate falls, and free blocks become only fewer: the head of the line fits no sooner than beside those free now.
    const auto free = static_cast<double>(pool_.num_free() * settings_.block_size);
    most = last_that(most, [&](std::int64_t steps) {
      return steps == 1 || refused_tokens_ + kept_free(estimate_.share(steps - 2), steps - 1) >= free;
    });
  }
  return last_that(most, [&](std::int64_t steps) {
    std::int64_t missing = 0;
    for (const SequenceId id : running_) missing += missing_blocks(sequences_[id], steps, steps);
    return missing <= pool_.num_free();
  });
}

const std::vector<Advance>& Scheduler::finish_step(std::int64_t steps) {
  counters_.steps += steps;
  estimate_.on_decode(steps - 1);
  advances_.clear();
  if (steps > 1) {
    for (const SequenceId id : running_) {
      Sequence& sequence = sequences_[id];
      KVTIDE_ASSERT(grow(sequence, steps, steps), "repeatable steps have their blocks");
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
    const std::int64_t scheduled = std::exchange(sequence.scheduled, 0);
    sequence.computed += scheduled;
    const bool has_token = scheduled > 0 && sequence.computed == sequence.known();
    if (has_token) ++sequence.generated;
    const bool is_finished = has_token && sequence.generated == sequence.request.output_tokens;
    if (scheduled > 0) {
      // Filled in place: put together beside and copied, its two flags would be read before they are written.
      Advance& advance = advances_.emplace_back();
      advance.request = sequence.index;
      advance.tokens = scheduled;
      advance.context_tokens = sequence.computed;
      advance.has_token = has_token;
      advance.is_finished = is_finished;
    }
    if (is_finished) {
      is_line_closed_ = false;
      release_blocks(sequence);
      sequence.blocks.clear();
      sequence.window_blocks.clear();
      unused_.push_back(id);
    } else {
      if (sequence.is_compressed() && settings_.growth.frees_blocks()) compress(sequence);
      running_[kept++] = id;
    }
  }
  running_.resize(kept);
  return advances_;
}

}  // namespace kvtide::serving
