// Which stages go together: contradictions() of compression.h.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kv/compression/anchor_tokens.h"
#include "kv/compression/codec.h"
#include "kv/compression/compression.h"
#include "kv/compression/importance.h"
#include "kv/compression/overlap.h"

namespace kvtide::kv {
namespace {

std::string divisors_of(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t candidate = 2; candidate <= n; ++candidate) {
    if (n % candidate == 0) divisors.push_back(candidate);
  }
  return fmt::format("{}", fmt::join(divisors, ", "));
}

/// Collects what the stages so far allow the next one to do.
class StackCheck {
 public:
  StackCheck(const Compression& setting, std::int64_t head_dim)
      : setting_(setting), k_columns_(head_dim), v_columns_(head_dim), head_dim_(head_dim) {}

  std::vector<std::string> run() {
    if (setting_.block_size < 1) say("block_size {} must be at least 1", setting_.block_size);
    if (setting_.block_size >= 1) check(setting_.partition);
    if (setting_.smooth_width < 1) say("positions: smooth width {} must be at least 1", setting_.smooth_width);
    if (setting_.sinks < 0 || setting_.window < 0) say("sinks and window must be 0 or more");
    for (const Stage& stage : setting_.stages) std::visit([this](const auto& s) { check(s); }, stage);
    check_rest();
    return std::move(problems_);
  }

 private:
  void check(const Partition& partition) {
    if (partition.kind == PartitionKind::overlap && (partition.overlap_ppm <= 0 || partition.overlap_ppm > 500'000)) {
      say("overlap fraction must be above 0 and at most 0.5");
      return;
    }
    if (setting_.grid_offset < 0 || setting_.grid_offset >= block_stride(setting_)) {
      say("grid offset {} must be in 0..{}", setting_.grid_offset, block_stride(setting_) - 1);
    }
  }

  template <typename... Arguments>
  void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    problems_.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  void check(const Evict& stage) {
    if (stage.keep <= 0 || stage.keep > 1'000'000) say("keep_ratio must be in (0, 1]");
    if (stage.granularity == Granularity::token && has_overlapping_blocks(setting_)) {
      say("overlapping blocks mean nothing to evict with granularity token; use granularity block, or score_only");
    }
    if (stage.granularity == Granularity::token && (is_low_rank_ || is_quantized_)) {
      say("evict with granularity token after {} would break encoded blocks; put it first",
          is_low_rank_ ? "low_rank" : "quantize");
    }
    if (stage.heads == HeadScope::shared && has_own_choices_)
      say("evict with heads shared cannot follow evict with heads per_head or adaptive");
    has_own_choices_ |= stage.heads != HeadScope::shared;
    if (stage.granularity == Granularity::block && stage.selection != Selection::top) {
      say("evict with a selection of positions needs granularity token");
    }
    if (previous_evict_ != nullptr && importance_key(setting_, *previous_evict_) != importance_key(setting_, stage)) {
      say("two evict stages must score alike; a layer is scored once");
    }
    previous_evict_ = &stage;
  }
  void check_rest() {
    for (const Stage& stage : setting_.stages) {
      const auto* evict = std::get_if<Evict>(&stage);
      if (evict == nullptr) continue;
      if (evict->spread < 1) say("evict spread {} must be at least 1", evict->spread);
      if (evict->rest == Rest::dropped) continue;
      if (setting_.stages.size() > 1 || has_overlapping_blocks(setting_) || keeps_anchor_tokens(setting_) ||
          setting_.positions != PositionCoding::original) {
        say("a rest other than dropped needs evict as the only stage, blocks that do not overlap, anchors by block and "
            "original positions");
      }
    }
  }
  void check(const Pool& stage) {
    if (stage.width < 1 || stage.width > setting_.block_size) {
      say("pool width {} must be in 1..block_size ({})", stage.width, setting_.block_size);
    }
    if (is_pooled_) say("two pool stages contradict each other; use one with the product of the widths");
    if (is_low_rank_ || is_quantized_)
      say("pool after {} would average encoded values; put it before", is_low_rank_ ? "low_rank" : "quantize");
    is_pooled_ = true;
    is_pooled_after_rope_ = stage.width > 1 && stage.rope == RopeState::post;
  }
  void check(const LowRank& stage) {
    const std::int64_t most = stage.scope == BasisScope::block ? std::min(setting_.block_size, head_dim_) : head_dim_;
    if (stage.k_share == 0 && (stage.rank < 1 || stage.rank > most)) {
      say("low_rank rank {} must be in 1..{} = {}", stage.rank,
          stage.scope == BasisScope::block ? "min(block_size, head_dim)" : "head_dim", most);
    }
    if (stage.keeps_channels && (stage.scope != BasisScope::sequence || stage.heads != 1 || stage.layers != 1 ||
                                 stage.k_rope == RopeState::pre || stage.columns(false, head_dim_) < head_dim_)) {
      say("low_rank channels chooses key channels of one head: scope sequence, heads 1, layers 1, k_rope post, v_share "
          "1");
    }
    if (stage.heads < 1 || stage.layers < 1) say("low_rank heads and layers must be at least 1");
    if (stage.heads > 1 && stage.scope == BasisScope::block)
      say("low_rank over several heads needs scope sequence or model");
    if (stage.heads > 1 && has_own_choices_)
      say("low_rank over several heads needs the same positions in each; evict with heads shared");
    if (stage.k_rope == RopeState::pre && is_pooled_after_rope_)
      say("keys pooled after RoPE cannot be stored before it; pool with rope pre");
    if (is_low_rank_) say("two low_rank stages contradict each other");
    if (is_quantized_) say("low_rank after quantize would factorise integers; put it before");
    is_low_rank_ = true;
    k_columns_ = stage.columns(true, head_dim_);
    v_columns_ = stage.columns(false, head_dim_);
  }
  void check(const Quantize& stage) {
    if (stage.group < 1) say("quantize group {} must be at least 1", stage.group);
    if (stage.residual_start < kFromPrompt) say("quantize residual_start {} must be -1 or more", stage.residual_start);
    if (stage.residual < 0) say("quantize residual {} must be 0 or more", stage.residual);
    if (is_quantized_) say("two quantize stages contradict each other; keep one");
    if (is_low_rank_ && stage.residual > 0) say("quantize with a residual cannot follow low_rank");
    for (const bool is_key : {true, false}) {
      const std::int64_t columns = is_key ? k_columns_ : v_columns_;
      const CodecUse use{&find_codec(is_key ? stage.k_format : stage.v_format), &stage, is_key, columns};
      const bool splits_channels =
          use.codec->takes_groups && (is_key ? stage.k_axis : stage.v_axis) == GroupAxis::token;
      std::string reason = unfit_reason(use);
      if (splits_channels && stage.group >= 1 && columns % stage.group != 0) {
        reason = fmt::format("quantize group {} does not divide the {} stored channels of a head; groups that do: {}",
                             stage.group, columns, divisors_of(columns));
      }
      if (!reason.empty() && (problems_.empty() || problems_.back() != reason)) problems_.push_back(std::move(reason));
    }
    if (stage.k_rope == RopeState::pre && is_pooled_after_rope_)
      say("keys pooled after RoPE cannot be stored before it; pool with rope pre");
    is_quantized_ = true;
  }

  const Compression& setting_;
  std::int64_t k_columns_;
  std::int64_t v_columns_;
  std::int64_t head_dim_;
  const Evict* previous_evict_ = nullptr;
  bool has_own_choices_ = false;
  bool is_pooled_ = false;
  bool is_pooled_after_rope_ = false;
  bool is_low_rank_ = false;
  bool is_quantized_ = false;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> contradictions(const Compression& setting, std::int64_t head_dim) {
  return StackCheck(setting, head_dim).run();
}

}  // namespace kvtide::kv
