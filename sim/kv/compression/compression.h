#pragma once
// A compression setting as the user writes it: partition, protect, and a stack of stages. A value: two equal settings
// compress equally.
//
// Rules that hold everywhere: a block that holds a protected position is kept whole, and counts inside the budget;
// a newest block that is not yet full is protected (unless the setting says otherwise); blocks kept = max(n - floor(n * (1 - keep_ratio)), protected ones),
// computed exactly (10 % of 10 is 1).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kv/head_cache.h"
#include "kv/partition.h"
#include "kv/position_coding.h"

namespace kvtide::kv {

enum class Granularity : std::uint8_t { block, token };
enum class HeadScope : std::uint8_t {
  per_head,
  shared,   ///< one choice for all heads of a layer, from the sum of their scores
  adaptive  ///< one budget for all heads of a layer, spent where scores are highest (Ada-KV, arXiv 2407.11550)
};
enum class BlockScore : std::uint8_t { sum, mean };  ///< how positions make the score of a block
/// How the budget is spent over a head's positions.
enum class Selection : std::uint8_t {
  top,           ///< the best anywhere
  quota,         ///< the same share of every block (kvpress ChunkPress)
  iterative,     ///< block after block: each joins the kept ones and the best of both survive (kvpress BlockPress)
  entropy_gated  ///< blocks by mean score; a high one of low entropy keeps only its best few positions
};
enum class GroupAxis : std::uint8_t {
  channel,
  token
};  ///< channel: a group runs along tokens of one channel (KIVI keys)
enum class RopeState : std::uint8_t { pre, post };

/// Keep ratio as an exact fraction of a million: 0.1 is 100000, so that 10 % of 10 is 1, not 0.
using PartsPerMillion = std::int64_t;

/// Numbers given to a scorer, sorted by name; what is absent has the scorer's own fallback (scorer.h).
using ScorerParameters = std::vector<std::pair<std::string, double>>;

/// Second stage of CriticalKV (arXiv 2502.03805): half of the budget goes by score, the rest by score * |W_o v|_1.
struct CriticalStage {
  double epsilon = 1e-4;                 ///< added to the score before the product
  PartsPerMillion first_stage = 500000;  ///< share of the budget that the plain score fills
  bool operator==(const CriticalStage&) const = default;
};

/// What becomes of the positions that an evict stage does not choose. All but `dropped` want it to be the only stage.
enum class Rest : std::uint8_t {
  dropped,
  unread,       ///< stay in their pages: memory pays, a decode step does not read them (Quest, arXiv 2406.10774)
  host,         ///< move to host memory: neither GPU memory nor a decode step pays (ArkVale, InfLLM)
  values,       ///< value folded into the kept position of the most similar key (kvpress MergingPress)
  weighted,     ///< key and value averaged into the kept position of the most similar key (D2O, arXiv 2406.13035)
  votes,        ///< the same by count, and the entry weighs as many positions as it holds (KeepKV, arXiv 2504.09936)
  neighbours,   ///< runs of alike keys become one entry around the kept position (KVMerger, arXiv 2407.08454)
  following,    ///< value spread over the kept positions that follow (CaM, proceedings.mlr.press/v235)
  compensated,  ///< one entry a head with their mean key and value and their number as weight (arXiv 2407.15891)
};
/// Whether kept entries are other than recorded, or more than that.
[[nodiscard]] constexpr bool changes_entries(Rest rest) {
  return rest != Rest::dropped && rest != Rest::unread && rest != Rest::host;
}

struct Evict {
  std::string scorer = "attention_sum";
  Granularity granularity = Granularity::block;
  PartsPerMillion keep = 500000;  ///< kept / original, in (0, 1e6]
  HeadScope heads = HeadScope::per_head;
  ScorerParameters parameters = {};
  /// [kv_head] instead of `keep` and in place of `threshold`, where each head of the layer has its own (head_budget.h).
  std::vector<PartsPerMillion> head_keep = {};
  BlockScore block_score = BlockScore::sum;
  Selection selection = Selection::top;
  std::int64_t low_entropy_kept = 4;   ///< entropy_gated: positions that a block of low entropy keeps
  PartsPerMillion safeguard = 200000;  ///< adaptive: share of its even budget that every head is sure of
  std::optional<CriticalStage> critical = {};
  std::optional<double> threshold = {};  ///< what scores at least this stays, however much; `keep` is then not a rule
  std::string kept_file = {};            ///< scorer `file`: where choices or scores are read, and whose
  std::string kept_method = {};
  Rest rest = Rest::dropped;
  double similarity =
      0;  ///< values, weighted, votes, neighbours: cosine of keys below which a position is dropped instead
  std::int64_t spread = 32;  ///< following: kept positions that share a value
  bool operator==(const Evict&) const = default;
};
enum class PoolWeight : std::uint8_t {
  uniform,
  cosine  ///< (1 + cos(key, mean key)) / 2, keys and values alike (LOOK-M, arXiv 2406.18139)
};
struct Pool {
  std::int64_t width = 4;  ///< positions averaged into one entry, >= 1
  RopeState rope = RopeState::post;
  bool mass_correct = true;  ///< bias ln(width) keeps the pool's share of attention
  PoolWeight weight = PoolWeight::uniform;
  bool operator==(const Pool&) const = default;
};
/// What a low-rank basis is found on, and so how often it is stored.
enum class BasisScope : std::uint8_t {
  block,     ///< every block its own
  sequence,  ///< once a sequence (ShadowKV, xKV)
  model      ///< once and for all, part of the weights: nothing stored with a sequence (Palu)
};
struct LowRank {
  std::int64_t rank = 32;  ///< stored channels of a head: 1..min(block_size, head_dim)
  /// Instead of `rank`, stored channels as a share of the head's, for K and V each; 0: `rank`; a million: left as it is.
  PartsPerMillion k_share = 0;
  PartsPerMillion v_share = 0;
  BasisScope scope = BasisScope::block;
  std::int64_t heads = 1;   ///< KV heads factorised together; each stores its part of the common coefficients
  std::int64_t layers = 1;  ///< layers that share coefficients (xKV): the basis of each is so many times larger
  RopeState k_rope = RopeState::post;
  /// The basis is a choice of key channels (ThinK, arXiv 2407.21018): stored as a bit mask, nothing is rebuilt.
  bool keeps_channels = false;
  std::int64_t channel_window = 32;  ///< newest queries that choose the channels
  bool operator==(const LowRank&) const = default;

  /// Stored channels of a head of K or V; head_dim where the tensor is left as it is.
  [[nodiscard]] std::int64_t columns(bool is_key, std::int64_t head_dim) const;
};
struct Quantize {
  std::string k_format = "int4";  ///< a codec (codec.h); fp16: keys stay as they are
  std::string v_format = "int4";
  // The next four concern codecs that take groups.
  std::int64_t group = 32;  ///< elements that share a 16-bit scale and, unless symmetric, a 16-bit zero point
  GroupAxis k_axis = GroupAxis::channel;
  GroupAxis v_axis = GroupAxis::token;
  bool is_symmetric = false;           ///< codes around zero, no zero point stored
  RopeState k_rope = RopeState::post;  ///< pre: keys are stored before rotation and rotated as they are read
  /// Newest positions left in fp16: keys n mod residual (flushed together), values the last `residual`.
  std::int64_t residual = 0;
  /// From where a residual counts. kFromPrompt: all positions there are (a prompt) are stored at once, and later ones wait
  /// until `residual` of them, keys and values together, are there (Hugging Face QuantizedCache). 0: KIVI's rule above.
  std::int64_t residual_start = 0;
  bool operator==(const Quantize&) const = default;
};
inline constexpr std::int64_t kFromPrompt = -1;
using Stage = std::variant<Evict, Pool, LowRank, Quantize>;

/// What an anchor keeps out of compression: the whole block that holds it, or the token alone.
enum class AnchorScope : std::uint8_t { block, token };

struct Compression {
  std::int64_t block_size = 128;
  std::int64_t grid_offset = 0;  ///< block of position p is (p + grid_offset) / block_stride; 0..block_stride-1
  Partition partition;
  std::int64_t sinks = 4;              ///< first positions, never compressed
  std::int64_t window = 64;            ///< newest positions, never compressed
  bool protects_filling_block = true;  ///< a newest block that is not yet full waits; false: it competes as it is
  PositionPattern anchors;             ///< further positions never compressed
  AnchorScope anchor_scope = AnchorScope::block;
  PositionCoding positions = PositionCoding::original;
  std::int64_t smooth_width = 8;  ///< positions that share an angle when positions are smooth
  std::vector<Stage> stages;      ///< applied in order; empty: identity
  bool operator==(const Compression&) const = default;
};

/// Everything wrong with a setting for a head of `head_dim` channels, one sentence each; empty when it can run.
[[nodiscard]] std::vector<std::string> contradictions(const Compression& setting, std::int64_t head_dim);

/// Importance of positions, [kv_head][position], in any unit: the higher is kept. Empty when no stage scores.
using LayerScores = std::vector<std::vector<double>>;

/// Decides and encodes one layer.
///
/// @param num_positions  positions to compress: 0..num_positions-1
/// @param scores         [kv_head][position >= num_positions]; needed when a stage evicts by score
/// @param tensors        the layer's recorded numbers, or null: decisions and bytes only (served geometry).
///                       Positions from num_positions to tensors' end follow as exact entries (they came later).
/// @return one HeadCache per KV head; the machine's and the loss meter's common input
/// @throws InputError    contradictions(), with the first sentence
[[nodiscard]] LayerCache compress_layer(const Compression& setting, std::int64_t num_positions, std::int64_t num_heads,
                                        std::int64_t head_dim, const LayerScores& scores, const LayerTensors* tensors);

}  // namespace kvtide::kv
