#pragma once
// Our choices beside a peer's on the same trace: kept positions per layer and share removed, scores where the file
// stores them, ThinK's channel masks and Merging's values as they are stored. Choices are made from the trace alone; of
// a method that draws random numbers only the selection is ours, from the scores the file gives.

#include <string>
#include <vector>

#include "attention/trace.h"

namespace kvtide::experiment {

struct KeptRow {
  std::string method;
  std::int64_t layer = 0;  ///< model layer
  double keep_ratio = 0;   ///< 1 - share removed
  bool known = false;      ///< false: a method we have not; nothing is compared
  double agreement = 0;    ///< share of (KV head, token) pairs, or channels, where both do the same; NaN: not compared
  double score_error = 0;  ///< largest difference over the largest score; NaN where none is stored
  /// LagKV, whose scores are ranks: what lies behind a rank that differs, as the largest distance of the values of the
  /// position that has it here and the one that has it there, over the largest value; 0: all ranks equal; NaN elsewhere.
  double rank_gap = 0;
  double value_error = 0;          ///< Merging: largest difference over the largest value; NaN elsewhere
  std::int64_t num_differing = 0;  ///< pairs where they differ, ties aside
  std::int64_t num_tied = 0;       ///< pairs that differ only in which of equal scores stayed
  /// What we keep, "0-3 60 62-2047; 5-9": positions (or channels) of each KV head, ends included; empty: no choice.
  std::string chosen;
  std::string note;  ///< "selection from given scores", or why nothing was compared
};

/// @param reference  a file as kept_file.h reads it. @throws InputError when it is not of this trace
[[nodiscard]] std::vector<KeptRow> compare_kept(const attention::Trace& trace, const std::string& reference);

}  // namespace kvtide::experiment
