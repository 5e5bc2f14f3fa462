#pragma once
// What becomes of the positions that an evict stage does not choose (Rest in compression.h): they are gone, stay where a
// decode step does not read them, or live on in entries that stay.
//
//   weighted     k_j <- (e k_j + sum e^u_i k_i) / (e + sum e^u_i), values alike, over the evicted i whose most similar
//                kept key is j, u_i the cosine, if it is at least `similarity` (D2O, arXiv 2406.13035)
//   votes        plain means over j and its i, logit bias ln of their number; 2 B a kept entry for the votes
//   neighbours   runs of neighbouring alike keys with Gaussian weights (neighbour_merge.h), bias ln of their number; 2 B a kept
//                entry for it
//   following    v_i p / m to each of the next m = `spread` kept positions, p = min(1, score of i / their mean score): the
//                expected value of CaM's draw; fewer than m where the text ends
//   compensated  one more entry, mean key and value of the evicted, bias ln of their number
//   unread, host what is not chosen as segments of their own, and the digests that choosing reads (scorer.h, Digests): fp16
//                vectors of head_dim for every page of the scorer, whatever the blocks are, stored and read with the keys
//
// Example, weighted: kept k = 1, one evicted k = 1 of cosine 1: (e + e) / (e + e) = 1. Of cosine 0 and k = 3:
// (e + 3) / (e + 1) = 1.538.

#include "kv/compression/compression.h"
#include "kv/position_runs.h"

namespace kvtide::kv {

/// One head of a layer whose only stage evicts.
struct RestOfHead {
  const Evict& stage;
  std::int64_t num_positions = 0;  ///< compressed ones; later positions are exact
  std::int64_t head_dim = 0;
  const PositionRuns& evicted;
  const std::vector<double>& scores;     ///< [position]
  const HeadTensors* tensors = nullptr;  ///< null: bytes only
};

/// Completes a head whose segments, and with tensors entries, say that the evicted positions are gone.
void settle_rest(const RestOfHead& rest, HeadCache& cache);

}  // namespace kvtide::kv
