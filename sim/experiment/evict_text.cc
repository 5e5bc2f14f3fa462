#include "experiment/evict_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"

namespace kvtide::experiment {

std::string ratio_text(kv::PartsPerMillion parts) {
  return fmt::format("{}", static_cast<double>(parts) / 1e6);
}

std::string to_string(kv::Granularity value) {
  return value == kv::Granularity::block ? "block" : "token";
}

std::string to_string(kv::HeadScope value) {
  switch (value) {
    case kv::HeadScope::per_head:
      return "per_head";
    case kv::HeadScope::shared:
      return "shared";
    case kv::HeadScope::adaptive:
      return "adaptive";
  }
  return {};
}

std::string to_string(kv::BlockScore value) {
  return value == kv::BlockScore::sum ? "sum" : "mean";
}

std::string to_string(kv::Selection value) {
  switch (value) {
    case kv::Selection::top:
      return "top";
    case kv::Selection::quota:
      return "quota";
    case kv::Selection::iterative:
      return "iterative";
    case kv::Selection::entropy_gated:
      return "entropy_gated";
  }
  return {};
}

std::string to_string(kv::Rest value) {
  switch (value) {
    case kv::Rest::dropped:
      return "dropped";
    case kv::Rest::unread:
      return "unread";
    case kv::Rest::host:
      return "host";
    case kv::Rest::values:
      return "values";
    case kv::Rest::weighted:
      return "weighted";
    case kv::Rest::votes:
      return "votes";
    case kv::Rest::neighbours:
      return "neighbours";
    case kv::Rest::following:
      return "following";
    case kv::Rest::compensated:
      return "compensated";
  }
  return {};
}

std::string evict_text(const kv::Evict& stage) {
  std::string text = fmt::format("scorer: {}", stage.scorer);
  for (const auto& [name, value] : stage.parameters) text += fmt::format(", {}: {}", name, value);
  if (!stage.kept_file.empty()) text += fmt::format(", kept: {}", stage.kept_file);
  if (!stage.kept_method.empty()) text += fmt::format(", method: {}", stage.kept_method);
  text += fmt::format(", granularity: {}, keep_ratio: {}, heads: {}", to_string(stage.granularity),
                      ratio_text(stage.keep), to_string(stage.heads));
  if (stage.heads == kv::HeadScope::adaptive) text += fmt::format(", safeguard: {}", ratio_text(stage.safeguard));
  if (stage.block_score != kv::BlockScore::sum) text += fmt::format(", block_score: {}", to_string(stage.block_score));
  if (stage.selection != kv::Selection::top) text += fmt::format(", selection: {}", to_string(stage.selection));
  if (stage.selection == kv::Selection::entropy_gated) {
    text += fmt::format(", low_entropy_kept: {}", stage.low_entropy_kept);
  }
  if (stage.threshold) text += fmt::format(", threshold: {}", *stage.threshold);
  if (stage.critical) {
    text += fmt::format(", critical: {{epsilon: {}, first_stage: {}}}", stage.critical->epsilon,
                        ratio_text(stage.critical->first_stage));
  }
  if (stage.rest != kv::Rest::dropped) text += fmt::format(", rest: {}", to_string(stage.rest));
  if (stage.similarity != 0) text += fmt::format(", similarity: {}", stage.similarity);
  if (stage.rest == kv::Rest::following) text += fmt::format(", spread: {}", stage.spread);
  return fmt::format("{{evict: {{{}}}}}", text);
}

std::string layer_budget_text(const kv::LayerBudget& budget) {
  switch (budget.kind) {
    case kv::LayerBudget::Kind::uniform:
      return {};
    case kv::LayerBudget::Kind::pyramid:
      return fmt::format("{{pyramid: {{beta: {}, window: {}}}}}", budget.pyramid.beta, budget.pyramid.window);
    case kv::LayerBudget::Kind::lazy:
      return fmt::format("{{lazy: {{threshold: {}, kept: {}}}}}", budget.lazy_threshold, budget.lazy_kept);
    case kv::LayerBudget::Kind::heads: {
      std::uint64_t hash = fnv1a64(budget.heads_misfit.empty() ? "fitted" : "other");
      for (const double score : budget.heads.scores) hash = fnv1a64(fmt::format("{} ", score), hash);
      const std::string rule =
          budget.head_rule.keeps_whole_heads
              ? fmt::format("share: {}", ratio_text(budget.head_rule.share))
              : fmt::format("beta: {}, window: {}", budget.head_rule.beta, budget.head_rule.window);
      return fmt::format("{{heads: {{layers: {}, heads: {}, content: {:016x}, {}}}}}", budget.heads.num_layers,
                         budget.heads.num_heads, hash, rule);
    }
    case kv::LayerBudget::Kind::table: {
      std::vector<std::string> shares;
      for (const kv::PartsPerMillion share : budget.table) shares.push_back(ratio_text(share));
      return fmt::format("{{layers: [{}]}}", fmt::join(shares, ", "));
    }
  }
  return {};
}

}  // namespace kvtide::experiment
