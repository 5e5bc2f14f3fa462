#include "kv/compression/scorer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/data_directory.h"
#include "base/error.h"
#include "kv/compression/attention_sum_scorer.h"
#include "kv/compression/cap_scorer.h"
#include "kv/compression/compactor_scorer.h"
#include "kv/compression/cur_scorer.h"
#include "kv/compression/expected_attention_scorer.h"
#include "kv/compression/file_scorer.h"
#include "kv/compression/finch_scorer.h"
#include "kv/compression/headkv_scorer.h"
#include "kv/compression/infllm_scorer.h"
#include "kv/compression/keydiff_scorer.h"
#include "kv/compression/knorm_scorer.h"
#include "kv/compression/lagkv_scorer.h"
#include "kv/compression/leverage_scorer.h"
#include "kv/compression/non_causal_scorer.h"
#include "kv/compression/observed_attention_scorer.h"
#include "kv/compression/oracle_scorer.h"
#include "kv/compression/page_bound_scorer.h"
#include "kv/compression/paged_eviction_scorer.h"
#include "kv/compression/position_scorer.h"
#include "kv/compression/random_scorer.h"
#include "kv/compression/retrieval_heads_scorer.h"
#include "kv/compression/snapkv_scorer.h"
#include "kv/compression/tova_scorer.h"

namespace kvtide::kv {

const std::vector<ScorerEntry>& scorers() {
  static const std::vector<ScorerEntry> table{
      arkvale_scorer(),
      attention_sum_scorer(),
      cap_scorer(),
      compactor_scorer(),
      cur_scorer(),
      expected_attention_scorer(),
      file_scorer(),
      finch_scorer(),
      first_scorer(),
      headkv_scorer(),
      infllm_scorer(),
      keydiff_scorer(),
      knorm_scorer(),
      lagkv_scorer(),
      leverage_scorer(),
      newest_scorer(),
      non_causal_scorer(),
      observed_attention_scorer(),
      oracle_scorer(),
      paged_eviction_scorer(),
      quest_scorer(),
      random_scorer(),
      retrieval_heads_scorer(),
      snapkv_scorer(),
      streaming_scorer(),
      strided_scorer(),
      tova_scorer(),
  };
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
