#include "kv/compression_work.h"

#include <algorithm>

#include "kv/compression/codec.h"
#include "kv/compression/scorer.h"

namespace kvtide::kv {
namespace {

/// Queries whose products with a block's keys its scores need. Scorers that watch every query have seen one per position
/// by the time a block is full.
double queries_of(const Evict& stage, const ScorerNeeds& needs, const Compression& setting, std::int64_t score_window) {
  switch (needs.queries) {
    case ScorerNeeds::Queries::none:
    case ScorerNeeds::Queries::future:
      return 0;
    case ScorerNeeds::Queries::last:
      return 1;
    case ScorerNeeds::Queries::window:
      for (const auto& [name, value] : resolved_parameters(find_scorer(stage.scorer), stage.parameters)) {
        if (name == "window") return value;
      }
      return static_cast<double>(score_window);
    case ScorerNeeds::Queries::all:
      return static_cast<double>(setting.block_size);
  }
  return 0;
}

/// Sums over the stages, of one KV head of one sequence. Elements are of 16 bits.
class HeadWork {
 public:
  HeadWork(const CacheTimeline::Geometry& geometry, const CacheEvent& event, std::int64_t num_positions)
      : geometry_(geometry),
        setting_(geometry.setting),
        event_(event),
        num_positions_(num_positions),
        positions_(std::max(event.completed_blocks * setting_.block_size, event.recompressed_positions)),
        is_latent_(std::ranges::any_of(geometry.model.layers, &LayerKind::is_latent)),
        elements_(static_cast<double>(positions_) * static_cast<double>(geometry.model.head_dim) * 2),
        stored_elements_(is_latent_ ? elements_ / 2 : elements_) {}

  [[nodiscard]] bool has_any() const {
    if (setting_.stages.empty()) return false;
    if (const auto* alone = std::get_if<Quantize>(&setting_.stages.front());
        alone != nullptr && setting_.stages.size() == 1) {
      return std::max(encoded_positions(*alone, true), encoded_positions(*alone, false)) > 0;
    }
    return std::max({positions_, event_.flushed_positions, event_.flushed_values}) > 0;
  }

  void add(const Evict& stage) {
    const ScorerNeeds& needs = find_scorer(stage.scorer).needs;
    const auto group =
        static_cast<double>(geometry_.model.num_query_heads) / static_cast<double>(geometry_.model.num_kv_heads);
    // q.k for every position and query of the group.
    query_flops_ += elements_ * queries_of(stage, needs, setting_, geometry_.score_window) * group;
    flops_ += elements_ / 2 * needs.flops_per_key_element;
    const bool reads_values = needs.values && !(is_latent_ && needs.keys);
    read_elements_ += (needs.keys ? elements_ / 2 : 0) + (reads_values ? elements_ / 2 : 0);
    if (stage.critical) {  // W_o v for every position and query head of the group
      query_flops_ += elements_ * static_cast<double>(geometry_.model.hidden_size) * group;
      read_elements_ += elements_ / 2;
    }
    double kept = static_cast<double>(stage.keep) * 1e-6;
    double kept_entries = kept * static_cast<double>(num_positions_);
    if (const std::int64_t target = geometry_.schedule.decode_target; target > 0 && event_.recompressed_positions > 0) {
      // What was chosen from are the target of the last time and the tokens since, not the context.
      kept_entries = static_cast<double>(std::min(target, event_.recompressed_positions));
      kept = kept_entries / static_cast<double>(event_.recompressed_positions);
    }
    add_rest(stage, kept, kept_entries);
    if (const Digests digests = digests_of(stage); digests.page > 0) {
      written_elements_ += elements_ / 2 * static_cast<double>(digests.vectors) / static_cast<double>(digests.page);
    }
    stored_share_ *= kept;
  }

  void add(const Pool& stage) {
    flops_ += stored_elements_;
    read_elements_ += stored_elements_;
    stored_share_ /= static_cast<double>(stage.width);
    written_elements_ += stored_elements_ * stored_share_;
  }

  void add(const LowRank& stage) {
    const std::int64_t head_dim = geometry_.model.head_dim;
    for (const bool is_key : {true, false}) {
      const std::int64_t columns = stage.columns(is_key, head_dim);
      if (columns >= head_dim || (is_latent_ && !is_key)) continue;
      if (stage.scope == BasisScope::block) {
        // Thin SVD of a [B, d] block: about 6 B d min(B, d) + 20 min^3 flops (Golub and Van Loan, Matrix
        // Computations, 8.6.3).
        const double smaller = static_cast<double>(std::min(setting_.block_size, head_dim));
        const double num_blocks = static_cast<double>(positions_) / static_cast<double>(setting_.block_size);
        flops_ += 3 * elements_ * smaller + num_blocks * 20 * smaller * smaller * smaller;
      } else if (stage.keeps_channels) {
        flops_ += elements_;  // squares of the keys and their sums
      } else {
        flops_ += elements_ * static_cast<double>(columns * stage.heads);  // projection onto a basis that is there
      }
      read_elements_ += elements_ / 2;
      written_elements_ += elements_ / 2 * static_cast<double>(columns) / static_cast<double>(head_dim);
    }
  }

  void add(const Quantize& stage) {
    for (const bool is_key : {true, false}) {
      const std::int64_t positions = encoded_positions(stage, is_key);
      if (positions == 0) continue;
      const CodecUse use{&find_codec(is_key ? stage.k_format : stage.v_format), &stage, is_key,
                         geometry_.model.head_dim};
      const double encoded =
          static_cast<double>(positions) * static_cast<double>(geometry_.model.head_dim) * stored_share_;
      flops_ += use.codec->write_operations * encoded;
      read_elements_ += encoded;
      written_elements_ += encoded * stored_bits(use, setting_.block_size, num_positions_) / 16.0;
    }
  }

  /// Keys are turned again: all that are kept (contiguous: ranks close behind every gap), or the new ones (smooth). 3 flops
  /// an element: two products and a sum.
  void add_turned_keys() {
    if (setting_.positions == PositionCoding::original || positions_ == 0) return;
    const bool is_to_target = event_.recompressed_positions > 0;
    std::int64_t turned = is_to_target ? std::min(positions_, geometry_.schedule.decode_every) : positions_;
    if (setting_.positions == PositionCoding::contiguous) turned = is_to_target ? positions_ : num_positions_;
    const double moved = static_cast<double>(turned) * static_cast<double>(geometry_.model.head_dim) * stored_share_;
    flops_ += 3 * moved;
    read_elements_ += moved;
    written_elements_ += moved;
  }

  /// The same in each of `num_heads`, as one kernel of `num_blocks` thread blocks.
  [[nodiscard]] gpu::CompressBlocksWork of_heads(std::int64_t num_heads, std::int64_t num_blocks) const {
    gpu::CompressBlocksWork work;
    work.num_blocks = num_blocks;
    work.read_bytes = static_cast<Bytes>(read_elements_ * 2) * static_cast<Bytes>(num_heads);
    work.write_bytes = static_cast<Bytes>(written_elements_ * 2) * static_cast<Bytes>(num_heads);
    work.chunk_bytes = static_cast<Bytes>(geometry_.page_size * geometry_.model.head_dim * 2);
    work.query_flops = query_flops_ * static_cast<double>(num_heads);
    work.flops = flops_ * static_cast<double>(num_heads) + work.query_flops;
    return work;
  }

 private:
  /// What becomes of the positions that are not chosen. @param kept  share, @param kept_entries  entries that stay
  void add_rest(const Evict& stage, double kept, double kept_entries) {
    switch (stage.rest) {
      case Rest::dropped:
      case Rest::unread:
      case Rest::host:
        break;
      case Rest::values:
      case Rest::weighted:
      case Rest::votes:  // each evicted key against each kept one
        flops_ += elements_ * (1 - kept) * kept_entries;
        read_elements_ += stored_elements_;
        break;
      case Rest::following:
        flops_ += elements_ * (1 - kept) * static_cast<double>(stage.spread);
        read_elements_ += elements_ / 2;
        break;
      case Rest::neighbours:  // a cosine, a distance and a weighted sum
        flops_ += 4 * stored_elements_;
        read_elements_ += stored_elements_;
        break;
      case Rest::compensated:
        flops_ += stored_elements_ * (1 - kept);
        read_elements_ += stored_elements_;
        break;
    }
  }

  /// Keys or values that the stage encodes now: whole blocks, or what leaves a residual. A latent vector is K and V in one
  /// and stored as K.
  [[nodiscard]] std::int64_t encoded_positions(const Quantize& stage, bool is_key) const {
    if (is_latent_ && !is_key) return 0;
    if (find_codec(is_key ? stage.k_format : stage.v_format).bits == 16) return 0;
    if (stage.residual == 0) return positions_;
    return std::max(event_.recompressed_positions, is_key ? event_.flushed_positions : event_.flushed_values);
  }

  const CacheTimeline::Geometry& geometry_;
  const Compression& setting_;
  const CacheEvent& event_;
  std::int64_t num_positions_;
  std::int64_t positions_;  ///< that a stage looks at: whole blocks, or what a compression to a target chooses from
  bool is_latent_;
  double elements_;         ///< of these positions' K and V
  double stored_elements_;  ///< the same, a latent vector counted once
  double read_elements_ = 0, written_elements_ = 0;
  double stored_share_ = 1;             ///< of the elements, behind the stages so far
  double flops_ = 0, query_flops_ = 0;  ///< beside one another: the latter are of query heads
};

}  // namespace

gpu::CompressBlocksWork compression_work(const CacheTimeline::Geometry& geometry, const CacheEvent& event,
                                         std::int64_t num_positions, std::int64_t num_blocks, std::int64_t batch) {
  HeadWork work(geometry, event, num_positions);
  if (!work.has_any()) return {};
  for (const Stage& stage : geometry.setting.stages) std::visit([&](const auto& one) { work.add(one); }, stage);
  work.add_turned_keys();
  const std::int64_t num_heads = batch * geometry.model.num_kv_heads;
  return work.of_heads(num_heads, num_heads * std::max<std::int64_t>(1, num_blocks));
}

}  // namespace kvtide::kv
