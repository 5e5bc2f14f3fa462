#include "kv/compression/importance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kv/compression/critical_stage.h"
#include "kv/compression/selection.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

void gather(const RowMatrix& rows, const std::vector<std::int64_t>& positions, RowMatrix& chosen) {
  chosen.resize(static_cast<std::int64_t>(positions.size()), rows.cols());
  float* to = chosen.data();
  for (const std::int64_t position : positions) to = std::copy_n(rows.row(position).data(), rows.cols(), to);
}

/// @param chosen  what an earlier call left is overwritten
void gather(const HeadTensors& head, const std::vector<std::int64_t>& positions, const ScorerNeeds& needs,
            HeadTensors& chosen) {
  chosen.group_size = head.group_size;
  chosen.attention_scale = head.attention_scale;
  chosen.rope = head.rope;
  if (needs.keys_before_rope) gather(head.k_pre, positions, chosen.k_pre);
  gather(head.k_post, positions, chosen.k_post);
  if (needs.values) gather(head.v, positions, chosen.v);
}

/// Scorers without queries are asked again about what is left; the others keep their score of the whole context.
Rescore rescore_of(const ScorerEntry& entry, const LayerTensors& layer, const ScorerContext& context) {
  if (entry.needs.queries != ScorerNeeds::Queries::none || entry.needs.positions_only || entry.needs.own_row_only ||
      context.given != nullptr) {
    return {};
  }
  if (entry.rescore != nullptr) return entry.rescore(layer, context);
  return [&entry, &layer, context, chosen = LayerTensors(1)](std::size_t head,
                                                             const std::vector<std::int64_t>& positions) mutable {
    ScorerContext inner = context;
    inner.num_positions = static_cast<std::int64_t>(positions.size());
    gather(layer[head], positions, entry.needs, chosen.front());
    return std::move(score_layer(entry, chosen, inner).front());
  };
}

}  // namespace

bool needs_output_projection(const Evict& stage) {
  return stage.critical.has_value() || find_scorer(stage.scorer).needs.output_projection;
}

LayerScores importance(const Compression& setting, const Evict& stage, const LayerTensors& layer,
                       ScorerContext context) {
  const ScorerEntry& entry = find_scorer(stage.scorer);
  context.keep = stage.keep;
  context.parameters = stage.parameters;
  LayerScores scores = score_layer(entry, layer, context);
  if (context.num_positions == 0) return scores;
  if (stage.critical) {
    if (context.output_projection == nullptr || context.output_projection->size() == 0) {
      throw InputError("critical needs the output projection W_o, which the trace does not hold");
    }
    scores = two_stage_scores(stage, std::move(scores),
                              projected_value_norms(layer, context.num_positions, *context.output_projection));
  }
  if (stage.selection == Selection::top) return scores;
  return selected_scores(setting, stage, scores, rescore_of(entry, layer, context));
}

std::string importance_key(const Compression& setting, const Evict& stage) {
  std::string key = fmt::format("{}|{}|{}", stage.scorer, stage.kept_file, stage.kept_method);
  for (const auto& [name, value] : stage.parameters) key += fmt::format("|{}={}", name, value);
  const ScorerEntry& entry = find_scorer(stage.scorer);
  const bool has_selection = stage.selection != Selection::top;
  if (entry.needs.keep_ratio || has_selection || stage.critical) key += fmt::format("|keep {}", stage.keep);
  if (stage.critical) {
    key += fmt::format("|critical {} {} {} {}", stage.critical->epsilon, stage.critical->first_stage,
                       static_cast<int>(stage.heads), stage.safeguard);
  }
  if (has_selection) {
    key += fmt::format("|selection {} {} grid {}", static_cast<int>(stage.selection), stage.low_entropy_kept,
                       grid_key(setting));
  }
  return key;
}

}  // namespace kvtide::kv
