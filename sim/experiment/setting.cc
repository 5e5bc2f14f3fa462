#include "experiment/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "experiment/evict_text.h"
#include "experiment/schedule_reader.h"

namespace kvtide::experiment {
namespace {

std::string axis_text(kv::GroupAxis axis) {
  return axis == kv::GroupAxis::channel ? "channel" : "token";
}

struct StageText {
  std::string operator()(const kv::Evict& stage) const { return evict_text(stage); }
  std::string operator()(const kv::Pool& stage) const {
    return fmt::format("{{pool: {{width: {}, rope: {}, mass_correct: {}{}}}}}", stage.width,
                       stage.rope == kv::RopeState::pre ? "pre" : "post", stage.mass_correct,
                       stage.weight == kv::PoolWeight::cosine ? ", weight: cosine" : "");
  }
  std::string operator()(const kv::LowRank& stage) const {
    if (stage == kv::LowRank{.rank = stage.rank})
      return fmt::format("{{low_rank: {{rank: {}, scope: block}}}}", stage.rank);
    const char* scope = stage.scope == kv::BasisScope::block      ? "block"
                        : stage.scope == kv::BasisScope::sequence ? "sequence"
                                                                  : "model";
    const std::string size = stage.k_share == 0 ? fmt::format("rank: {}", stage.rank)
                                                : fmt::format("k_share: {}, v_share: {}", ratio_text(stage.k_share),
                                                              ratio_text(stage.v_share));
    return fmt::format(
        "{{low_rank: {{{}, scope: {}, heads: {}, layers: {}, k_rope: {}{}}}}}", size, scope, stage.heads, stage.layers,
        stage.k_rope == kv::RopeState::pre ? "pre" : "post",
        stage.keeps_channels ? fmt::format(", channels: true, channel_window: {}", stage.channel_window) : "");
  }
  std::string operator()(const kv::Quantize& stage) const {
    const std::string format = stage.k_format == stage.v_format
                                   ? fmt::format("format: {}", stage.k_format)
                                   : fmt::format("k_format: {}, v_format: {}", stage.k_format, stage.v_format);
    return fmt::format("{{quantize: {{{}, group: {}, k_axis: {}, v_axis: {}, symmetric: {}, residual: {}{}}}}}", format,
                       stage.group, axis_text(stage.k_axis), axis_text(stage.v_axis), stage.is_symmetric,
                       stage.residual,
                       std::string(stage.residual_start == kv::kFromPrompt ? ", residual_from: prompt" : "") +
                           (stage.k_rope == kv::RopeState::pre ? ", k_rope: pre" : ""));
  }
};

std::string probe_text(const Setting& setting) {
  const std::optional<loss::ProbeSpec>& probe = setting.probe;
  if (!probe) return "none";
  return fmt::format("{} {} {} {} {} {} {} {}", setting.moves_recorded_fact, loss::to_string(probe->kind), probe->span,
                     probe->margin, probe->step, probe->spacing, probe->codes, probe->readers);
}

std::string partition_text(const Setting& setting) {
  const kv::Compression& compression = setting.compression;
  const kv::Partition& partition = compression.partition;
  std::string keys;
  switch (partition.kind) {
    case kv::PartitionKind::fixed:
      keys = fmt::format(", offset: {}", compression.grid_offset);
      break;
    case kv::PartitionKind::random_offset:
      keys = partition.is_from_content ? ", source: content" : "";
      break;
    case kv::PartitionKind::overlap:
      keys = fmt::format(", offset: {}, overlap: {{fraction: {}, storage: {}}}", compression.grid_offset,
                         ratio_text(partition.overlap_ppm), kv::to_string(partition.storage));
      break;
    case kv::PartitionKind::prefix_pad:
      keys = fmt::format(", multiple: {}, prefix_tokens: {}", partition.pad_multiple, partition.prefix_tokens);
      break;
    case kv::PartitionKind::content:
      keys = fmt::format(", boundaries: {}", setting.boundaries);
      break;
  }
  return fmt::format("{{kind: {}{}}}", kv::to_string(partition.kind), keys);
}

std::string anchors_text(const Setting& setting) {
  const AnchorSetting& anchors = setting.anchors;
  if (anchors.empty()) return "";
  std::vector<std::string> all = anchors.kinds;
  for (const std::int64_t position : anchors.positions) all.push_back(fmt::format("{}", position));
  return fmt::format(", anchors: [{}], anchor_scope: {}, anchor_share: {}", fmt::join(all, ", "),
                     setting.compression.anchor_scope == kv::AnchorScope::block ? "block" : "token", anchors.share);
}

}  // namespace

std::string to_string(kv::CacheLayout value) {
  return value == kv::CacheLayout::shared ? "shared" : "per_head";
}
std::string to_string(gpu::Fidelity value) {
  switch (value) {
    case gpu::Fidelity::detailed:
      return "detailed";
    case gpu::Fidelity::sampled:
      return "sampled";
    case gpu::Fidelity::roofline:
      return "roofline";
  }
  return "";
}

std::string to_string(QueryMode value) {
  return value == QueryMode::agnostic ? "agnostic" : "aware";
}

std::string to_string(MeasureQueries value) {
  switch (value) {
    case MeasureQueries::question:
      return "question";
    case MeasureQueries::answer:
      return "answer";
    case MeasureQueries::all:
      return "all";
    case MeasureQueries::range:
      return "range";
  }
  return {};
}

std::string to_string(LossMetric value) {
  switch (value) {
    case LossMetric::mass_loss:
      return "mass_loss";
    case LossMetric::output_loss:
      return "output_loss";
    case LossMetric::bits_lost:
      return "bits_lost";
  }
  return {};
}

std::string units_of(LossMetric value) {
  return value == LossMetric::bits_lost ? "bit" : "1";
}

std::string compression_text(const Setting& setting) {
  const kv::Compression& compression = setting.compression;
  std::vector<std::string> stages;
  for (const kv::Stage& stage : compression.stages) stages.push_back(std::visit(StageText{}, stage));
  if (const std::string budget = layer_budget_text(setting.layer_budget); !budget.empty()) {
    stages.push_back(fmt::format("budget: {}", budget));
  }
  std::string positions;
  if (compression.positions != kv::PositionCoding::original) {
    positions = fmt::format(", positions: {{kind: {}, width: {}}}", kv::to_string(compression.positions),
                            compression.smooth_width);
  }
  return fmt::format("{{block_size: {}, partition: {}, protect: {{sinks: {}, window: {}{}{}}}{}, stages: [{}]{}}}",
                     compression.block_size, partition_text(setting), compression.sinks, compression.window,
                     compression.protects_filling_block ? "" : ", filling_block: false", anchors_text(setting),
                     positions, fmt::join(stages, ", "), schedule_text(setting));
}

std::string canonical_text(const Setting& setting, const std::string& model_fingerprint,
                           const std::string& gpu_fingerprint, const std::string& trace_fingerprint) {
  std::string trace = trace_fingerprint;
  if (setting.trace.kind == TraceKind::synthetic) {
    trace = setting.trace.synthetic_kind;
    for (const auto& [name, value] : setting.trace.parameters) trace += fmt::format(" {}={}", name, value);
  }
  // Of a file of choices too the content counts, not the place.
  Setting by_content = setting;
  for (kv::Stage& stage : by_content.compression.stages) {
    auto* evict = std::get_if<kv::Evict>(&stage);
    if (evict != nullptr && !evict->kept_file.empty()) evict->kept_file = file_fingerprint(evict->kept_file);
  }
  const LossSetting& loss = setting.loss;
  const MeasureSetting& measure = setting.measure;
  std::string text = fmt::format(
      "model {}\ngpu {}\ntrace {}\ncontext_tokens {}\nbatch {}\npage_size {}\nlayout {}\ncompression {}\n"
      "loss {} {} {} {} {} {} {} {} {}\nmeasure {} {} {} {} {} {}\nprobe {}\nseed {}\n",
      model_fingerprint, gpu_fingerprint, trace, setting.context_tokens, setting.batch, setting.page_size,
      to_string(setting.layout), compression_text(by_content), to_string(loss.queries), loss.score_window,
      to_string(loss.measure_queries), loss.first_query, loss.last_query, to_string(loss.metric), to_string(loss.heads),
      loss.span, loss.requests, measure.memory, measure.time, measure.loss, measure.position_scan, measure.prefix_scan,
      measure.detail, probe_text(setting), setting.seed);
  // Written only where they differ from the defaults, so that keys and seeds of earlier results stay.
  if (setting.tensor_parallel > 1 || setting.pipeline_parallel > 1)
    text += fmt::format("parallel {} {}\n", setting.tensor_parallel, setting.pipeline_parallel);
  if (setting.weights != WeightStorage{}) text += fmt::format("weights {}\n", kvtide::to_string(setting.weights));
  if (loss.sample_queries > 0) text += fmt::format("sample_queries {}\n", loss.sample_queries);
  if (setting.expert_parallel > 1) text += fmt::format("expert_parallel {}\n", setting.expert_parallel);
  if (setting.fidelity != gpu::Fidelity::sampled) text += fmt::format("fidelity {}\n", to_string(setting.fidelity));
  if (setting.serving) {
    const std::string& path = setting.serving->requests;
    text +=
        fmt::format("serving {}\n", serving_text(*setting.serving, path.empty() ? "drawn" : file_fingerprint(path)));
    const std::string& facts = setting.serving->facts;
    if (!facts.empty()) text += fmt::format("facts {}\n", file_fingerprint(facts));
  }
  return text;
}

std::string file_fingerprint(const std::string& path) {
  constexpr std::uint64_t kWholeUpTo = 64 * kMiB;
  constexpr std::uint64_t kNumWindows = 64;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto end = file.tellg();
  if (!file || end < 0) throw InputError(fmt::format("{}: cannot be read", path));
  const auto size = static_cast<std::uint64_t>(end);
  std::uint64_t hash = fnv1a64("");
  std::string buffer;
  const auto add = [&](std::uint64_t begin, std::uint64_t length) {
    buffer.resize(length);
    file.seekg(static_cast<std::streamoff>(begin));
    file.read(buffer.data(), static_cast<std::streamsize>(length));
    if (!file) throw InputError(fmt::format("{}: cannot be read to its end", path));
    hash = fnv1a64(buffer, hash);
  };
  if (size <= kWholeUpTo) {
    for (std::uint64_t at = 0; at < size; at += kMiB) add(at, std::min<std::uint64_t>(kMiB, size - at));
  } else {
    for (std::uint64_t window = 0; window < kNumWindows; ++window) {
      // (size - 1 MiB) * 63 stays below 2^64 for every file under 2.9e17 B.
      add((size - kMiB) * window / (kNumWindows - 1), kMiB);
    }
  }
  return fmt::format("{}:{:016x}", size, hash);
}

}  // namespace kvtide::experiment
