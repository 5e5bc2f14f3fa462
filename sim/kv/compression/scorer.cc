#include "kv/compression/scorer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::kv {

/// One line a scorer, sorted by name: `ENTRY(mine)` is the function mine_scorer() of its own file.
#define KVTIDE_SCORERS(ENTRY) \
  ENTRY(arkvale)              \
  ENTRY(attention_sum)        \
  ENTRY(cap)                  \
  ENTRY(compactor)            \
  ENTRY(cur)                  \
  ENTRY(expected_attention)   \
  ENTRY(file)                 \
  ENTRY(finch)                \
  ENTRY(first)                \
  ENTRY(headkv)               \
  ENTRY(infllm)               \
  ENTRY(keydiff)              \
  ENTRY(knorm)                \
  ENTRY(lagkv)                \
  ENTRY(leverage)             \
  ENTRY(newest)               \
  ENTRY(non_causal)           \
  ENTRY(observed_attention)   \
  ENTRY(oracle)               \
  ENTRY(paged_eviction)       \
  ENTRY(quest)                \
  ENTRY(random)               \
  ENTRY(retrieval_heads)      \
  ENTRY(snapkv)               \
  ENTRY(streaming)            \
  ENTRY(strided)              \
  ENTRY(tova)

#define KVTIDE_DECLARE(name) [[nodiscard]] ScorerEntry name##_scorer();
KVTIDE_SCORERS(KVTIDE_DECLARE)
#undef KVTIDE_DECLARE

const std::vector<ScorerEntry>& scorers() {
#define KVTIDE_CALL(name) name##_scorer(),
  static const std::vector<ScorerEntry> table{KVTIDE_SCORERS(KVTIDE_CALL)};
#undef KVTIDE_CALL
  return table;
}

const ScorerEntry& find_scorer(const std::string& name) {
  std::vector<std::string> known;
  for (const ScorerEntry& entry : scorers()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  const std::string nearest = nearest_name(name, known);
  throw InputError(fmt::format("unknown scorer \"{}\"{} (known: {})", name,
                               nearest.empty() ? "" : ", did you mean " + nearest + "?", fmt::join(known, ", ")));
}

double ScorerContext::number(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &ScorerParameters::value_type::first);
  KVTIDE_ASSERT(found != parameters.end(), "parameters are completed before a scorer runs");
  return found->second;
}

std::int64_t ScorerContext::integer(std::string_view name) const {
  return std::llround(number(name));
}

ScorerParameters resolved_parameters(const ScorerEntry& entry, const ScorerParameters& given) {
  ScorerParameters resolved;
  std::vector<std::string> known;
  for (const ScorerParameter& parameter : entry.parameters) {
    resolved.emplace_back(parameter.name, parameter.fallback);
    known.push_back(parameter.name);
  }
  for (const auto& [name, value] : given) {
    const auto index = static_cast<std::size_t>(std::ranges::find(known, name) - known.begin());
    if (index == known.size()) {
      throw InputError(
          fmt::format("scorer {} has no parameter \"{}\" (its own: {})", entry.name, name, fmt::join(known, ", ")));
    }
    const ScorerParameter& rule = entry.parameters[index];
    if (!(value >= rule.min && value <= rule.max) || (rule.is_integer && value != std::floor(value))) {
      throw InputError(fmt::format("scorer {}: {} must be {} in {}..{}, got {}", entry.name, name,
                                   rule.is_integer ? "an integer" : "a number", rule.min, rule.max, value));
    }
    resolved[index].second = value;
  }
  std::ranges::sort(resolved);
  return resolved;
}

Digests digests_of(const Evict& stage) {
  const ScorerEntry& entry = find_scorer(stage.scorer);
  Digests digests{.page = 0, .vectors = entry.needs.digest_vectors};
  if (entry.needs.digest_page.empty()) return digests;
  const ScorerParameters parameters = resolved_parameters(entry, stage.parameters);
  for (const auto& [name, value] : parameters) {
    if (name == entry.needs.digest_page) digests.page = static_cast<std::int64_t>(value);
  }
  for (const auto& [name, value] : parameters) {
    if (name == entry.needs.digest_parameter)
      digests.vectors = std::min(digests.page, static_cast<std::int64_t>(value));
  }
  return digests;
}

Digests digests_of_steps(const Compression& setting) {
  for (const Stage& stage : setting.stages) {
    const auto* evict = std::get_if<Evict>(&stage);
    if (evict != nullptr && (evict->rest == Rest::unread || evict->rest == Rest::host)) return digests_of(*evict);
  }
  return {};
}

LayerScores score_layer(const ScorerEntry& entry, const LayerTensors& layer, ScorerContext context) {
  if (!layer.empty()) context.num_heads = static_cast<std::int64_t>(layer.size());
  context.parameters = resolved_parameters(entry, context.parameters);
  if (context.num_positions == 0) return LayerScores(static_cast<std::size_t>(context.num_heads));
  if (entry.needs.output_projection &&
      (context.output_projection == nullptr || context.output_projection->size() == 0)) {
    throw InputError(fmt::format("{} needs the output projection W_o, which the trace does not hold", entry.name));
  }
  return entry.score(layer, context);
}

}  // namespace kvtide::kv
