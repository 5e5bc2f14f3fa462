#include "experiment/schedule_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiment/evict_reader.h"
#include "experiment/evict_text.h"
#include "kv/compression/first_stage.h"
#include "kv/compression/scorer.h"

namespace kvtide::experiment {
namespace {

using config::Value;

constexpr std::int64_t kMost = 1 << 24;

std::int64_t num_evicts(const kv::Compression& setting) {
  return std::ranges::count_if(setting.stages,
                               [](const kv::Stage& stage) { return std::holds_alternative<kv::Evict>(stage); });
}

/// A share that may be none.
kv::PartsPerMillion read_part(const Value& value, double max) {
  return exact_parts(value, value.as_number({.fallback = 0, .min = 0, .max = max})).value_or(0);
}

void read_decode(const Value& value, Setting& setting) {
  kv::CacheSchedule& schedule = setting.schedule;
  const std::int64_t target = value.integer("target", {.min = 1, .max = kMost});
  schedule.decode_every = value.integer("every", {.fallback = 128, .min = 1, .max = kMost});
  const auto* evict = kv::first_stage<kv::Evict>(setting.compression);
  if (num_evicts(setting.compression) != 1) {
    value.error(fmt::format("expected one evict stage to bring the cache to a target, got {}",
                            num_evicts(setting.compression)));
  } else if (evict->threshold) {
    value.error("expected an evict stage without a threshold, which decides how much stays");
  } else if (evict->rest == kv::Rest::unread) {
    value.error("expected positions that leave the cache, got rest: unread");
  } else {
    schedule.decode_target = target;
  }
}

void read_sharing(const Value& value, Setting& setting) {
  kv::LayerSharing& sharing = setting.sharing;
  sharing.group = value.integer("group", {.fallback = 2, .min = 0, .max = 1024});
  if (value.at("from").exists()) sharing.from = read_part(value.at("from"), 0.999999);
  sharing.window = value.integer("window", {.fallback = 0, .min = 0, .max = kMost});
  sharing.merges = value.boolean("merges", false);
  sharing.retained = read_part(value.at("retained"), 1);
  if (sharing.retained > 0 && !sharing.merges) value.error("expected retained only with merges: true");
  const bool quantizes_alone = std::ranges::all_of(
      setting.compression.stages, [](const kv::Stage& stage) { return std::holds_alternative<kv::Quantize>(stage); });
  if (sharing.merges && !quantizes_alone) {
    value.error("expected quantize stages alone beside merges: true, which counts every position");
  }
}

}  // namespace

void read_schedule(const Value& compression, Setting& setting) {
  kv::CacheSchedule& schedule = setting.schedule;
  schedule.prefill_chunk = compression.integer("prefill_chunk", {.fallback = 0, .min = 0, .max = kMost});
  if (const Value decode = compression.at("decode"); decode.exists() && !decode.is_null()) read_decode(decode, setting);
  schedule.recall = read_part(compression.at("recall"), 1);
  const auto* evict = kv::first_stage<kv::Evict>(setting.compression);
  if (schedule.recall > 0 && (evict == nullptr || evict->rest != kv::Rest::host)) {
    compression.at("recall").error("expected an evict stage with rest: host to recall from");
  }
  const Value sharing = compression.at("share_layers");
  if (sharing.exists() && !sharing.is_null()) read_sharing(sharing, setting);
}

std::string schedule_text(const Setting& setting) {
  const kv::CacheSchedule& schedule = setting.schedule;
  const kv::LayerSharing& sharing = setting.sharing;
  std::string text;
  if (schedule.prefill_chunk > 0) text += fmt::format(", prefill_chunk: {}", schedule.prefill_chunk);
  if (schedule.decode_target > 0)
    text += fmt::format(", decode: {{target: {}, every: {}}}", schedule.decode_target, schedule.decode_every);
  if (schedule.recall > 0) text += fmt::format(", recall: {}", ratio_text(schedule.recall));
  if (sharing != kv::LayerSharing{}) {
    text += fmt::format(", share_layers: {{group: {}, from: {}, window: {}", sharing.group, ratio_text(sharing.from),
                        sharing.window);
    if (sharing.merges) text += fmt::format(", merges: true, retained: {}", ratio_text(sharing.retained));
    text += "}";
  }
  return text;
}

std::string unserved_keys(const Setting& setting) {
  std::string keys;
  const auto add = [&keys](const char* key) { keys += keys.empty() ? key : std::string(", ") + key; };
  if (setting.schedule.prefill_chunk > 0) add("compression.prefill_chunk");
  if (setting.schedule.decode_target > 0) add("compression.decode");
  if (setting.schedule.recall > 0) add("compression.recall");
  if (setting.sharing != kv::LayerSharing{}) add("compression.share_layers");
  return keys;
}

std::vector<std::string> schedule_warnings(const Setting& setting) {
  std::vector<std::string> warnings;
  const auto* evict = kv::first_stage<kv::Evict>(setting.compression);
  if (setting.schedule.prefill_chunk > 0 && evict != nullptr && !kv::find_scorer(evict->scorer).needs.positions_only) {
    warnings.push_back(
        fmt::format("prefill_chunk: the loss is that of {} over the whole prompt; chosen chunk by chunk it may keep "
                    "other positions",
                    evict->scorer));
  }
  if (setting.schedule.decode_target > 0) {
    warnings.push_back(
        fmt::format("decode: the loss is that of one compression to {} of {} positions, as a share of the trace",
                    std::min(setting.schedule.decode_target, setting.context_tokens), setting.context_tokens));
  }
  if (evict != nullptr && evict->rest == kv::Rest::host && setting.schedule.recall == 0) {
    warnings.emplace_back(
        "rest: host: recall over the host link is not timed; compression.recall is the share recalled");
  }
  return warnings;
}

}  // namespace kvtide::experiment
