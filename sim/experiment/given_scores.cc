#include "experiment/given_scores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "experiment/kept_file.h"

namespace kvtide::experiment {
namespace {

/// Index of the ratio that removes what the stage does not keep; as many as there are when none does.
std::size_t ratio_index(const KeptFile& file, const kv::Evict& stage) {
  const double removed = 1 - static_cast<double>(stage.keep) * 1e-6;
  return static_cast<std::size_t>(
      std::ranges::find_if(file.removed_ratios, [&](double ratio) { return std::abs(ratio - removed) < 1e-6; }) -
      file.removed_ratios.begin());
}

}  // namespace

std::vector<kv::LayerScores> read_given_scores(const kv::Evict& stage, const attention::TraceInfo& info,
                                               std::int64_t num_positions) {
  const KeptFile file = read_kept_file(stage.kept_file, stage.kept_method);
  if (file.methods.size() != 1) {
    std::vector<std::string> names;
    for (const KeptMethod& method : file.methods) names.push_back(method.name);
    throw InputError(fmt::format("{}: say which with `method:` (it holds {})", file.path, fmt::join(names, ", ")));
  }
  const KeptMethod& method = file.methods.front();
  if (method.kept.empty() && method.scores.empty()) {
    throw InputError(fmt::format(
        "{}: /{}: expected kept [layer, ratio, kv_head, token] or scores [layer, kv_head, token], found neither: it "
        "does not choose among positions",
        file.path, method.name));
  }
  if (file.num_kv_heads != info.num_kv_heads || file.num_tokens < num_positions) {
    throw InputError(fmt::format("{}: /{}: expected {} KV heads and at least {} tokens as {} has, got {} and {}",
                                 file.path, method.name, info.num_kv_heads, num_positions, info.origin,
                                 file.num_kv_heads, file.num_tokens));
  }
  const std::size_t ratio = ratio_index(file, stage);
  const bool has_kept = !method.kept.empty() && ratio < file.removed_ratios.size();
  if (!has_kept && method.scores.empty()) {
    throw InputError(fmt::format("{}: /{} holds no choice at keep_ratio {} (shares removed: {}) and no scores",
                                 file.path, method.name, static_cast<double>(stage.keep) * 1e-6,
                                 fmt::join(file.removed_ratios, ", ")));
  }
  std::vector<kv::LayerScores> result;
  for (const std::int64_t layer : info.layers) {
    const auto found = static_cast<std::size_t>(std::ranges::find(file.layers, layer) - file.layers.begin());
    if (found == file.layers.size()) {
      throw InputError(fmt::format("{}: layers: the trace records layer {}, the file has {}", file.path, layer,
                                   fmt::join(file.layers, ", ")));
    }
    kv::LayerScores& of_layer = result.emplace_back();
    for (std::size_t head = 0; head < static_cast<std::size_t>(file.num_kv_heads); ++head) {
      std::vector<double>& scores = of_layer.emplace_back();
      for (std::size_t position = 0; position < static_cast<std::size_t>(num_positions); ++position) {
        scores.push_back(
            has_kept ? static_cast<double>(method.kept[file.offset(found, ratio, head, file.num_tokens) + position])
                     : static_cast<double>(method.scores[file.score_offset(found, head) + position]));
      }
    }
  }
  return result;
}

}  // namespace kvtide::experiment
