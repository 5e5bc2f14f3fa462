#pragma once
// Predicts what an answer loses under compressed caches from one full-cache recording of its prompt: no forward pass
// with any of them, and the measured answers are never looked at.

#include <string>
#include <vector>

#include "kv/compression/compression.h"
#include "loss/answer_loss.h"
#include "loss/snowball.h"
#include "loss/validation/measured_scan.h"

namespace kvtide::loss {

/// What is asked of one prompt; nothing that was measured.
struct AskedSetting {
  MeasuredSetting setting;
  std::int64_t grid_offset = 0;  ///< tokens, 0..65536
};

struct PredictedAnswer {
  AnswerLoss loss;
  Snowball snowball;                     ///< of the answer's tokens, each chosen among kAnswerChoices
  std::vector<double> lost_by_layer;     ///< [layer] as AnswerReading has them
  std::vector<double> carried_by_layer;  ///< [layer]
};

/// The setting in our words. evict: block 0 and every block that touches the last 64 tokens stay. pool: groups of
/// `block`, the first 4 and last 64 tokens exact, each group standing for all its tokens. int2, int4: keys by block and
/// channel, values by token, nothing exact.
[[nodiscard]] kv::Compression compression_of(const AskedSetting& asked);

/// @param capture   a trace of every layer with the asked probe's digit positions and `/answer/margin` (the correct
///                  token's logit minus the log-sum-exp of the others, one value an answer token)
/// @param settings  what to predict; the scan's name is not used
/// @return [setting]
/// @throws InputError naming the capture and what it lacks
[[nodiscard]] std::vector<PredictedAnswer> predict_prompt(const std::string& capture,
                                                          const std::vector<AskedSetting>& settings);

}  // namespace kvtide::loss
