#pragma once
// A file of choices: which positions each method kept of each layer and KV head, laid out like a kvpress reference
// (given_scores.h). Read whole, checked before anything is used.

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide::experiment {

struct KeptMethod {
  std::string name;
  std::string parameters;  ///< JSON text of the method's class and parameters; may be empty
  /// [layer, ratio, kv_head, token], 1: kept; empty when only scores are stored
  std::vector<std::uint8_t> kept;
  std::vector<float> scores;                ///< [layer, kv_head, token]; empty when absent
  std::vector<std::uint8_t> kept_channels;  ///< [layer, ratio, kv_head, channel]; methods that drop key channels
  bool scores_depend_on_ratio = false;      ///< the stored ones are those at 0.5 removed
};

struct KeptFile {
  std::string path;
  std::vector<std::int64_t> layers;    ///< model layers
  std::vector<double> removed_ratios;  ///< share removed
  std::int64_t num_kv_heads = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_channels = 0;  ///< 0 when no method drops channels
  std::vector<KeptMethod> methods;

  /// First element of kept (or of kept_channels when `width` is num_channels) for one layer, ratio and head.
  [[nodiscard]] std::size_t offset(std::size_t layer, std::size_t ratio, std::size_t head, std::int64_t width) const {
    return ((layer * removed_ratios.size() + ratio) * static_cast<std::size_t>(num_kv_heads) + head) *
           static_cast<std::size_t>(width);
  }
  [[nodiscard]] std::size_t score_offset(std::size_t layer, std::size_t head) const {
    return (layer * static_cast<std::size_t>(num_kv_heads) + head) * static_cast<std::size_t>(num_tokens);
  }
};

/// @param only_method  empty: all. @throws InputError naming the dataset at fault
[[nodiscard]] KeptFile read_kept_file(const std::string& path, const std::string& only_method = "");

}  // namespace kvtide::experiment
