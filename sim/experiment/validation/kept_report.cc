#include "experiment/validation/kept_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "experiment/kept_file.h"
#include "experiment/validation/merged_reference.h"
#include "experiment/validation/peer_method.h"
#include "kv/compression/channel_mask.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/importance.h"
#include "kv/compression/lazy_layer.h"
#include "kv/compression/non_causal_scorer.h"

namespace kvtide::experiment {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
/// The share removed at which the file stores scores that depend on it.
constexpr double kStoredRatio = 0.5;
/// Scores from here on mark positions that are kept in any case: they count as kept, not as a number.
constexpr double kCertain = 1e37;

/// [kv_head][position], 1: kept.
using KeptMask = std::vector<std::vector<std::uint8_t>>;

KeptMask mask_of(const std::vector<kv::PositionRuns>& evicted, std::int64_t num_positions) {
  KeptMask mask;
  for (const kv::PositionRuns& runs : evicted) {
    mask.emplace_back(static_cast<std::size_t>(num_positions), std::uint8_t{1});
    for (const kv::PositionRun& run : runs)
      std::fill(mask.back().begin() + run.begin, mask.back().begin() + run.end, std::uint8_t{0});
  }
  return mask;
}

/// Positions of one block whose scores are equal may stand for each other; without scores none may.
struct Interchange {
  kv::LayerScores scores;       ///< [kv_head][position], or empty
  std::int64_t block_size = 0;  ///< 0: the whole context is one block

  [[nodiscard]] std::pair<std::int64_t, double> key(std::size_t head, std::size_t position) const {
    return {block_size > 0 ? static_cast<std::int64_t>(position) / block_size : 0, scores[head][position]};
  }
};

/// KeptRow::rank_gap. @param values  what our scores are the ranks of
double rank_gap(const kv::LayerScores& ours, const kv::LayerScores& values, std::int64_t sinks, std::int64_t lag,
                const std::function<float(std::size_t head, std::size_t position)>& theirs) {
  double gap = 0;
  double largest = 0;
  for (std::size_t head = 0; head < ours.size(); ++head) {
    const std::size_t size = ours[head].size();
    for (auto first = static_cast<std::size_t>(sinks); first < size; first += static_cast<std::size_t>(lag)) {
      const std::size_t end = std::min(first + static_cast<std::size_t>(lag), size);
      for (std::size_t position = first; position < end; ++position) {
        if (ours[head][position] < 1) largest = std::max(largest, values[head][position]);
        std::size_t holder = position;
        if (theirs(head, position) != static_cast<float>(ours[head][position])) holder = first;
        while (holder < end && theirs(head, position) != static_cast<float>(ours[head][holder])) ++holder;
        if (holder == end) return std::numeric_limits<double>::infinity();
        gap = std::max(gap, std::abs(values[head][position] - values[head][holder]));
      }
    }
  }
  return largest > 0 ? gap / largest : 0.0;
}

/// KeptRow::chosen.
template <typename Mask>
void append_head(const Mask& kept, std::string& text) {
  if (!text.empty()) text += "; ";
  const char* blank = "";
  for (std::size_t begin = 0; begin < kept.size();) {
    std::size_t end = begin;
    while (end < kept.size() && kept[end] != 0) ++end;
    if (end > begin + 1) text += fmt::format("{}{}-{}", blank, begin, end - 1);
    if (end == begin + 1) text += fmt::format("{}{}", blank, begin);
    if (end > begin) blank = " ";
    begin = end + 1;
  }
}

class LayerComparison {
 public:
  LayerComparison(const attention::Trace& trace, const KeptFile& file, std::size_t layer, std::int64_t trace_layer)
      : trace_(trace),
        file_(file),
        layer_(layer),
        tensors_(trace.load_layer(trace_layer)),
        output_projection_(trace.output_projection(trace_layer)) {}

  std::vector<KeptRow> rows(const KeptMethod& stored) const {
    const PeerMethod method = peer_method(stored.name, stored.parameters);
    std::vector<KeptRow> rows;
    for (std::size_t ratio = 0; ratio < file_.removed_ratios.size(); ++ratio) {
      KeptRow& row = rows.emplace_back();
      row.method = stored.name;
      row.layer = file_.layers[layer_];
      row.keep_ratio = 1 - file_.removed_ratios[ratio];
      row.known = method.kind != PeerKind::unknown;
      row.agreement = row.score_error = row.rank_gap = row.value_error = kNothing;
      if (row.known) compare(stored, method, ratio, row);
    }
    return rows;
  }

 private:
  [[nodiscard]] kv::ScorerContext context() const {
    return {.num_positions = file_.num_tokens,
            .num_heads = file_.num_kv_heads,
            .output_projection = &output_projection_,
            .seed = layer_ + 1};
  }

  void compare(const KeptMethod& stored, const PeerMethod& method, std::size_t ratio, KeptRow& row) const {
    const double removed = file_.removed_ratios[ratio];
    switch (method.kind) {
      case PeerKind::unknown:
        return;
      case PeerKind::key_channels:
        return compare_channels(stored, method, ratio, row);
      case PeerKind::lazy_layers: {
        if (stored.kept.empty()) return;
        const kv::LazyRule rule;
        const std::int64_t first_newest = file_.num_tokens - rule.newest + rule.queries;
        std::vector<std::uint8_t> of_head(static_cast<std::size_t>(file_.num_tokens), 1);
        if (kv::lazy_share(tensors_, file_.num_tokens, rule) > removed && first_newest > rule.sinks) {
          std::fill(of_head.begin() + rule.sinks, of_head.begin() + first_newest, std::uint8_t{0});
        }
        return count(stored, KeptMask(static_cast<std::size_t>(file_.num_kv_heads), of_head), ratio, {}, row);
      }
      case PeerKind::evict:
      case PeerKind::pyramid:
      case PeerKind::merged_values:
        break;
    }
    const kv::Compression setting =
        at_ratio(method, removed, file_.num_tokens, file_.layers[layer_], trace_.info().num_model_layers);
    const auto& stage = std::get<kv::Evict>(setting.stages.front());
    const bool scores_are_of_this_ratio = !stored.scores_depend_on_ratio || std::abs(removed - kStoredRatio) < 1e-9;
    std::optional<kv::LayerScores> scores;
    if (method.is_stochastic) {
      scores = given_scores(stored, method, removed, scores_are_of_this_ratio);
      row.note = scores ? "selection from given scores" : "drawn at random; no scores stored at this ratio";
    } else {
      scores = kv::importance(setting, stage, tensors_, context());
      if (scores_are_of_this_ratio && !stored.scores.empty()) {
        row.score_error = score_error(stored, *scores);
        if (stage.scorer == "lagkv") row.rank_gap = rank_gap_of(stored, stage, *scores);
      }
    }
    if (!scores) return;
    const KeptMask ours = mask_of(kv::evicted_runs(setting, file_.num_tokens, *scores), file_.num_tokens);
    if (!stored.kept.empty()) count(stored, ours, ratio, interchange(setting, stage, *scores), row);
    if (method.kind == PeerKind::merged_values) {
      compare_merged(file_.path, stored.name, file_.layers[layer_], removed, ours, tensors_, method.merge, row);
    }
  }

  /// The file's scores, for methods that draw. Compactor's at another ratio: the drawn part follows from the stored
  /// scores and our own other part, S(r) = r D + A with D = (S(0.5) - A) / 0.5.
  [[nodiscard]] std::optional<kv::LayerScores> given_scores(const KeptMethod& stored, const PeerMethod& method,
                                                            double removed, bool are_of_this_ratio) const {
    if (stored.scores.empty() || (!are_of_this_ratio && !method.blends_drawn)) return {};
    kv::LayerScores scores;
    for (std::size_t head = 0; head < static_cast<std::size_t>(file_.num_kv_heads); ++head) {
      const auto begin = stored.scores.begin() + static_cast<std::ptrdiff_t>(file_.score_offset(layer_, head));
      scores.emplace_back(begin, begin + file_.num_tokens);
    }
    if (are_of_this_ratio) return scores;
    kv::ScorerContext inner = context();
    const auto& stage = std::get<kv::Evict>(method.setting.stages.front());
    inner.parameters = kv::resolved_parameters(kv::find_scorer(stage.scorer), stage.parameters);
    const std::int64_t first = inner.integer("first_kept");
    const std::int64_t end = file_.num_tokens - inner.integer("last_kept");
    if (end <= first) return {};
    const kv::LayerScores fixed = kv::non_causal_scores(tensors_, first, end, inner.integer("chunk"), true);
    for (std::size_t head = 0; head < scores.size(); ++head) {
      for (std::int64_t position = first; position < end; ++position) {
        const double known = fixed[head][static_cast<std::size_t>(position - first)];
        double& score = scores[head][static_cast<std::size_t>(position)];
        score = removed * (score - known) / kStoredRatio + known;
      }
    }
    double largest = -std::numeric_limits<double>::infinity();
    for (const auto& of_head : scores)
      largest = std::max(largest, *std::max_element(of_head.begin() + first, of_head.begin() + end));
    for (auto& of_head : scores) {
      std::fill(of_head.begin(), of_head.begin() + first, largest);
      std::fill(of_head.begin() + end, of_head.end(), largest);
    }
    return scores;
  }

  [[nodiscard]] double score_error(const KeptMethod& stored, const kv::LayerScores& ours) const {
    double largest = 0;
    double difference = 0;
    for (std::size_t head = 0; head < ours.size(); ++head) {
      for (std::size_t position = 0; position < static_cast<std::size_t>(file_.num_tokens); ++position) {
        const auto theirs = static_cast<double>(stored.scores[file_.score_offset(layer_, head) + position]);
        const double own = ours[head][position];
        if (theirs >= kCertain && own >= kCertain) continue;
        difference = std::max(difference, std::abs(theirs - own));
        if (theirs < kCertain) largest = std::max(largest, std::abs(theirs));
      }
    }
    return difference / largest;
  }

  /// KeptRow::rank_gap of scores that are ranks.
  [[nodiscard]] double rank_gap_of(const KeptMethod& stored, const kv::Evict& stage,
                                   const kv::LayerScores& ours) const {
    const kv::ScorerEntry& entry = kv::find_scorer(stage.scorer);
    kv::ScorerContext inner = context();
    inner.parameters = kv::resolved_parameters(entry, stage.parameters);
    if (inner.integer("cross_scoring") == 1) return kNothing;  // the values themselves
    const std::int64_t sinks = inner.integer("sinks");
    const std::int64_t lag = inner.integer("lag");
    std::ranges::find(inner.parameters, "cross_scoring", &kv::ScorerParameters::value_type::first)->second = 1;
    return rank_gap(ours, kv::score_layer(entry, tensors_, inner), sinks, lag,
                    [&](std::size_t head, std::size_t position) {
                      return stored.scores[file_.score_offset(layer_, head) + position];
                    });
  }

  /// What the choice cannot tell apart. @param scores  those of the final choice
  [[nodiscard]] Interchange interchange(const kv::Compression& setting, const kv::Evict& stage,
                                        const kv::LayerScores& scores) const {
    if (stage.granularity != kv::Granularity::token || stage.heads != kv::HeadScope::per_head) return {};
    if (stage.selection == kv::Selection::top) return {scores, 0};
    if (stage.selection != kv::Selection::entropy_gated) return {};
    // A few of a block stay, by the sum of its positions' own scores over the heads.
    kv::Evict plain = stage;
    plain.selection = kv::Selection::top;
    const kv::LayerScores own = kv::importance(setting, plain, tensors_, context());
    std::vector<double> sum(own.front().size(), 0.0);
    for (const auto& of_head : own) std::ranges::transform(sum, of_head, sum.begin(), std::plus<>());
    return {kv::LayerScores(own.size(), sum), setting.block_size};
  }

  void count(const KeptMethod& stored, const KeptMask& ours, std::size_t ratio, const Interchange& interchange,
             KeptRow& row) const {
    for (std::size_t head = 0; head < ours.size(); ++head) {
      append_head(ours[head], row.chosen);
      const auto theirs =
          stored.kept.begin() + static_cast<std::ptrdiff_t>(file_.offset(layer_, ratio, head, file_.num_tokens));
      // Of the positions that may stand for each other: how many only they keep, and how many only we.
      std::map<std::pair<std::int64_t, double>, std::array<std::int64_t, 2>> only;
      for (std::size_t position = 0; position < ours[head].size(); ++position) {
        const bool is_ours = ours[head][position] != 0;
        if (is_ours == (theirs[static_cast<std::ptrdiff_t>(position)] != 0)) continue;
        if (interchange.scores.empty()) {
          ++row.num_differing;
        } else {
          ++only[interchange.key(head, position)][is_ours ? 1 : 0];
        }
      }
      for (const auto& [key, num] : only) {
        row.num_tied += 2 * std::min(num[0], num[1]);
        row.num_differing += std::abs(num[0] - num[1]);
      }
    }
    row.agreement = 1 - static_cast<double>(row.num_differing) /
                            static_cast<double>(ours.size() * static_cast<std::size_t>(file_.num_tokens));
  }

  void compare_channels(const KeptMethod& stored, const PeerMethod& method, std::size_t ratio, KeptRow& row) const {
    if (stored.kept_channels.empty() || file_.num_channels != trace_.info().head_dim) return;
    const std::int64_t dropped =
        static_cast<std::int64_t>(static_cast<double>(file_.num_channels) * file_.removed_ratios[ratio]);
    for (std::size_t head = 0; head < tensors_.size(); ++head) {
      const std::vector<bool> kept =
          kv::kept_channels(tensors_[head], file_.num_tokens, method.window, file_.num_channels - dropped);
      append_head(kept, row.chosen);
      const std::size_t first = file_.offset(layer_, ratio, head, file_.num_channels);
      for (std::size_t channel = 0; channel < kept.size(); ++channel) {
        if (static_cast<std::uint8_t>(kept[channel]) != stored.kept_channels[first + channel]) ++row.num_differing;
      }
    }
    row.agreement =
        1 - static_cast<double>(row.num_differing) / static_cast<double>(file_.num_kv_heads * file_.num_channels);
    row.note = "key channels";
  }

  const attention::Trace& trace_;
  const KeptFile& file_;
  std::size_t layer_;
  kv::LayerTensors tensors_;
  kv::RowMatrix output_projection_;
};

}  // namespace

std::vector<KeptRow> compare_kept(const attention::Trace& trace, const std::string& reference) {
  const KeptFile file = read_kept_file(reference);
  const attention::TraceInfo& info = trace.info();
  if (file.num_kv_heads != info.num_kv_heads || file.num_tokens > info.num_tokens || file.num_tokens == 0) {
    throw InputError(fmt::format("{}: {} KV heads and {} tokens, the trace {} has {} and {}", reference,
                                 file.num_kv_heads, file.num_tokens, info.origin, info.num_kv_heads, info.num_tokens));
  }
  std::vector<KeptRow> rows;
  for (std::size_t layer = 0; layer < file.layers.size(); ++layer) {
    const auto found = std::ranges::find(info.layers, file.layers[layer]);
    if (found == info.layers.end()) {
      throw InputError(fmt::format("{}: layers: the trace {} records {}, not {}", reference, info.origin,
                                   fmt::join(info.layers, ", "), file.layers[layer]));
    }
    const LayerComparison comparison(trace, file, layer, found - info.layers.begin());
    for (const KeptMethod& method : file.methods) {
      for (KeptRow& row : comparison.rows(method)) rows.push_back(std::move(row));
    }
  }
  std::ranges::stable_sort(rows, {}, &KeptRow::method);
  return rows;
}

}  // namespace kvtide::experiment
