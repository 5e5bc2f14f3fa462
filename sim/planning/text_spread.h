#pragma once
// How a loss varies between texts, where that has been measured: analysis/kvtide_analysis/assets/text-spread.csv.

#include <optional>
#include <string>

namespace kvtide::planning {

/// The mean loss of one setting over many texts, against its median text. Example: 1.23, 1.97, 3.53 nats: 0.62 to 1.80.
struct TextSpread {
  int texts = 0;
  double low = 1, high = 1;              ///< 10th and 90th percentile / median
  int layers = 0;                        ///< that carry the answer; 0: not in the file
  double layer_low = 0, layer_high = 0;  ///< 10th and 90th percentile of the share that a layer loses
};

/// None where the file is not there. @throws InputError when it is damaged
[[nodiscard]] std::optional<TextSpread> measured_text_spread();
/// What `run` says of figures of one text; empty where the file is not there.
[[nodiscard]] std::string text_spread_sentence();
/// @param text  the file's: lines with # are comments, then a header  @param name  for messages
[[nodiscard]] TextSpread parse_text_spread(const std::string& text, const std::string& name);

}  // namespace kvtide::planning
