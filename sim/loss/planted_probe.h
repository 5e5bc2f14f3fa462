#pragma once
// A probe of known strength, planted at any position of a recorded context: does its answer survive the policy there?
//
// Each token of the probe is asked by every measured query row that comes after it: its logit exceeds the mean (of the
// exponentials) of what
// the row sees by `margin`, so that among n keys it gets a = e^D / (e^D + n (1 - w)) of the attention, w the share of the token it
// replaces. Its value is one of `codes` random unit vectors. With the policy's evicted set of background mass m the
// answer gets a' = e^D / (e^D + n (1 - w - m)) where the token stays, 0 where it goes. The outputs of the heads that read it vote:
// Gamma = score of the right code - best other; positive: retrieved. Approximation: what a head reads besides the probe
// keeps its direction.
//
// A token is asked alone, as an answer reads its facts one token at a time: 4 x 64 tokens share no softmax, and each gets what a single one
// would. Only the policy's scores see all tokens of the probe in one softmax.
//
// Example (loss-metrics T15): 4,096 keys, D = ln 4095 = 8.318: half of the attention; half of the others evicted: 2/3.
//
// The policy decides anew with the probe present: rows that feed its scores see the probe too (by their own margin, 0 when the
// question was not yet asked). Only sums over blocks are made again, so every position of a long trace can be asked.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "kv/compression/compression.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

/// factual       one fact; all of its tokens are needed
/// keyword       one fact; any of its tokens will do
/// reasoning     two facts, both needed, all tokens of each
/// coreference   three mentions in a chain, each by any of its tokens, all links needed
/// multi_needle  four facts; the success is the share that is found
enum class ProbeKind : std::uint8_t { factual, keyword, reasoning, coreference, multi_needle };
[[nodiscard]] std::string_view to_string(ProbeKind kind);

struct ProbeSpec {
  ProbeKind kind = ProbeKind::factual;
  std::int64_t span = 14;    ///< tokens of one fact, >= 1
  double margin = 10;        ///< D in nats
  std::int64_t step = 16;    ///< positions between two places, >= 1
  std::int64_t spacing = 0;  ///< positions between the facts of one probe; >= span
  std::int64_t codes = 16;   ///< answers to choose among, >= 2
  /// KV heads of all layers that read the probe, those that read most: in a real model a few heads decide. 0: all.
  std::int64_t readers = 1;
  bool operator==(const ProbeSpec&) const = default;
};

/// How many facts a probe of this kind has.
[[nodiscard]] std::int64_t num_facts(ProbeKind kind);

struct ProbeScan {
  std::vector<std::int64_t> position;  ///< first token of the probe's first fact
  std::vector<double> success;  ///< [position] 0 or 1; multi_needle: share of facts found; 0 where no row comes after
  std::vector<double> margin;   ///< [position] Gamma of what decides
  std::vector<double>
      mass;  ///< [position] attention on a probe token asked alone, mean over tokens, readers and rows that see it
  std::vector<double> bits;             ///< [position] bits lost per stored element of the probe's tokens
  std::vector<double> full_success;     ///< [position] with the full cache: below 1 the probe is too weak
  std::vector<double> control_success;  ///< [position] tokens found with the fact removed; chance is 1 / codes
};

/// What a policy that only evicts takes, given position scores. @return [kv_head]
using EvictByScores = std::function<std::vector<kv::PositionRuns>(std::int64_t layer, const kv::LayerScores& scores)>;

struct ProbeInputs {
  const AttentionReference* measured = nullptr;  ///< rows that ask
  const AttentionReference* scoring = nullptr;   ///< rows that feed the scores; null: scores do not see the probe
  std::vector<double> scoring_margin;            ///< [row of scoring's query] by how much it sees the probe, per query
  std::vector<kv::LayerScores> fixed_scores;     ///< [layer] used where scoring is null
  std::vector<std::vector<double>> reading;      ///< [layer][kv_head] how much a head reads; empty: all alike
  std::vector<std::int64_t> cell_begins;         ///< ascending, from 0: positions between two are never told apart
  std::int64_t num_positions = 0;                ///< compressed positions; the probe lies within
  EvictByScores evict;
  std::uint64_t seed = 1;  ///< of the codes
};

/// @throws InputError  spec out of range, or the probe does not fit the context
[[nodiscard]] ProbeScan scan_planted_probe(const ProbeSpec& spec, const ProbeInputs& inputs);

/// Attention on a needle: e^margin / (e^margin + background). Example: D = 12, 4,095 others: 0.975.
[[nodiscard]] double needle_attention(double margin, double background);

}  // namespace kvtide::loss
