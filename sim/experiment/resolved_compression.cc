#include "experiment/resolved_compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/text_anchors.h"
#include "base/error.h"
#include "base/random.h"

namespace kvtide::experiment {
namespace {

/// Tokens of the text in front that decide a content-derived offset: requests that share them share their blocks.
constexpr std::size_t kKeyTokens = 256;

const std::vector<std::string>& strings_of(const TraceInputs& trace, const std::string& kind) {
  if (trace.token_strings().empty()) {
    throw InputError(fmt::format("{}: {} are found from token strings, and the trace has none; give positions instead",
                                 trace.info().origin, kind));
  }
  return trace.token_strings();
}

std::vector<std::int64_t> probe_positions(const TraceInputs& trace) {
  if (trace.probes().empty()) {
    throw InputError(fmt::format("{}: anchors: trace needs probes, and the trace has none", trace.info().origin));
  }
  std::vector<std::int64_t> positions;
  for (const attention::Probe& probe : trace.probes()) {
    for (std::int64_t step = 0; step < probe.length; ++step) positions.push_back(probe.start + step);
  }
  return positions;
}

/// The `share` of positions with the largest scores, at least one; on a tie the earlier.
std::vector<std::int64_t> best(const std::vector<double>& scores, double share) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) {
    return scores[static_cast<std::size_t>(left)] > scores[static_cast<std::size_t>(right)];
  });
  order.resize(std::min(
      order.size(),
      std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(share * static_cast<double>(scores.size()))))));
  return order;
}

/// One score a position over all recorded layers and KV heads: attention summed, key norm averaged and negated.
std::vector<double> scores_of(const std::string& kind, const TraceInputs& trace) {
  std::vector<double> scores(static_cast<std::size_t>(trace.num_compressed()), 0.0);
  if (kind == "attention") {
    const kv::Evict attention;
    kv::Compression plain;
    plain.stages = {attention};
    for (const auto& layer : trace.scores(plain, attention, {})->scores) {
      for (const auto& head : layer) {
        for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += head[j];
      }
    }
    return scores;
  }
  for (const kv::LayerTensors& layer : trace.layers()) {
    for (const kv::HeadTensors& head : layer) {
      for (std::size_t j = 0; j < scores.size(); ++j) {
        scores[j] -= static_cast<double>(head.k_post.row(static_cast<std::int64_t>(j)).norm());
      }
    }
  }
  return scores;
}

std::vector<std::int64_t> anchors_of_kind(const std::string& kind, double share, const TraceInputs& trace) {
  if (kind == "trace") return probe_positions(trace);
  if (kind == "key_norm" || kind == "attention") return best(scores_of(kind, trace), share);
  return attention::find_text_anchors(strings_of(trace, kind), attention::text_anchor(kind));
}

kv::PositionPattern pattern(std::vector<std::int64_t> positions, std::int64_t length) {
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  std::erase_if(positions, [length](std::int64_t position) { return position < 0 || position >= length; });
  return {std::move(positions), length};
}

/// Hash of the text in front.
std::uint64_t content_key(const TraceInputs& trace) {
  std::uint64_t key = fnv1a64(trace.info().origin);
  const auto& ids = trace.token_ids();
  if (!ids.empty()) key = fnv1a64("");
  for (std::size_t index = 0; index < std::min(ids.size(), kKeyTokens); ++index) {
    key = mix64(key ^ static_cast<std::uint64_t>(ids[index]));
  }
  return key;
}

}  // namespace

kv::Compression resolved_compression(const Run& run, const TraceInputs& trace) {
  const Setting& asked = run.setting;
  kv::Compression setting = asked.compression;
  const std::int64_t length = trace.num_compressed();
  if (setting.partition.kind == kv::PartitionKind::random_offset) {
    setting.partition.content_key = setting.partition.is_from_content ? content_key(trace) : 0;
    if (setting.partition.is_from_content) {
      setting = kv::behind_prefix(setting, 0);
    } else {
      RandomStream stream(run.seed, "grid_offset");
      setting.grid_offset = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(setting.block_size)));
    }
  } else if (setting.partition.kind == kv::PartitionKind::prefix_pad) {
    setting = kv::behind_prefix(setting, 0);
  } else if (setting.partition.kind == kv::PartitionKind::content) {
    setting.partition.boundaries = pattern(anchors_of_kind(asked.boundaries, 0, trace), length);
  }
  // Machine and loss meter keep the same share: a target is one of the served context.
  setting = kv::at_target(setting, asked.schedule, asked.context_tokens);
  if (!asked.anchors.empty()) {
    std::vector<std::int64_t> positions = asked.anchors.positions;
    for (const std::string& kind : asked.anchors.kinds) {
      const auto found = anchors_of_kind(kind, asked.anchors.share, trace);
      positions.insert(positions.end(), found.begin(), found.end());
    }
    setting.anchors = pattern(std::move(positions), length);
  }
  return setting;
}

}  // namespace kvtide::experiment
