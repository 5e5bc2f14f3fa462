#include "experiment/serving_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace kvtide::experiment {
namespace {

using config::Value;
using serving::ArrivalKind;
using serving::LengthDistribution;

constexpr std::int64_t kMaxTokens = 1 << 24;
constexpr double kMaxRate = 1e6;
constexpr std::int64_t kMinModelLength = 16;                // prompt and answer of one page
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 24;  // 32 bytes each in the simulator's own memory

double read_rate(const Value& value) {
  const double rate = value.as_quantity({.dimension = Dimension::rate, .fallback = {}, .min = 1e-6, .max = kMaxRate});
  return rate > 0 ? rate : 1;
}

LengthDistribution read_lengths(const Value& value) {
  LengthDistribution lengths;
  if (!value.is_map()) {
    lengths.mean = static_cast<double>(value.as_integer({.fallback = 256, .min = 1, .max = kMaxTokens}));
    return lengths;
  }
  const Value lognormal = value.at("lognormal"), uniform = value.at("uniform");
  if (lognormal.exists()) {
    lengths.kind = LengthDistribution::Kind::lognormal;
    lengths.mean = lognormal.number("mean", {.min = 1, .max = kMaxTokens});
    lengths.cv = lognormal.number("cv", {.fallback = 1, .min = 0, .max = 100});
  } else if (uniform.exists()) {
    lengths.kind = LengthDistribution::Kind::uniform;
    lengths.low = static_cast<double>(uniform.integer("min", {.min = 1, .max = kMaxTokens}));
    lengths.high = static_cast<double>(uniform.integer("max", {.min = 1, .max = kMaxTokens}));
    if (lengths.high < lengths.low) uniform.error("expected min <= max");
  } else {
    value.error("expected a number of tokens, {lognormal: {mean, cv}} or {uniform: {min, max}}");
  }
  return lengths;
}

void read_drawn(const Value& value, ServingSetting& setting) {
  serving::SyntheticWorkload& drawn = setting.drawn;
  switch (drawn.arrivals) {
    case ArrivalKind::poisson:
      drawn.rate = read_rate(value.at("rate"));
      break;
    case ArrivalKind::gamma:
      drawn.rate = read_rate(value.at("rate"));
      drawn.cv = value.number("cv", {.fallback = 2, .min = 0.01, .max = 100});
      break;
    case ArrivalKind::ramp:
      drawn.rate = read_rate(value.at("rate"));
      drawn.end_rate = read_rate(value.at("end_rate"));
      break;
    case ArrivalKind::closed_loop:
      drawn.users = value.integer("users", {.min = 1, .max = 1'000'000});
      drawn.think_seconds =
          value.quantity("think_time", {.dimension = Dimension::time, .fallback = 0, .min = 0, .max = 1e6});
      break;
  }
  drawn.input = read_lengths(value.at("input_tokens"));
  drawn.output = read_lengths(value.at("output_tokens"));
  drawn.num_requests = value.integer("requests", {.fallback = 1000, .min = 1, .max = 10'000'000});
  if (const Value prefixes = value.at("prefixes"); prefixes.exists()) {
    double shares = 0;
    for (const Value& prefix : prefixes.items()) {
      drawn.prefixes.push_back({.tokens = prefix.integer("tokens", {.min = 1, .max = kMaxTokens}),
                                .share = prefix.number("share", {.fallback = 1, .min = 0, .max = 1})});
      shares += drawn.prefixes.back().share;
    }
    if (shares > 1 + 1e-9) prefixes.error(fmt::format("shares add up to {}, expected at most 1", shares));
  }
}

void read_workload(const Value& value, ServingSetting& setting,
                   const std::function<std::string(const std::string&)>& located) {
  const std::string policy = value.choice("long_requests", {"refuse", "truncate", "drop"}, "refuse");
  for (const auto one : {serving::LongRequests::refuse, serving::LongRequests::truncate, serving::LongRequests::drop}) {
    if (to_string(one) == policy) setting.long_requests = one;
  }
  setting.seeds = value.integer("seeds", {.fallback = 1, .min = 1, .max = 1000});
  int kinds = 0;
  if (const Value requests = value.at("requests"); requests.exists()) {
    ++kinds;
    setting.requests = located(requests.as_string());
    if (!std::filesystem::exists(setting.requests)) requests.error(fmt::format("no file {}", setting.requests));
    setting.rate_scale = value.number("rate_scale", {.fallback = 1, .min = 1e-6, .max = 1e6});
    if (setting.seeds > 1) value.at("seeds").error("a trace has one course of events: seeds needs drawn requests");
  }
  for (const ArrivalKind kind :
       {ArrivalKind::poisson, ArrivalKind::gamma, ArrivalKind::ramp, ArrivalKind::closed_loop}) {
    const Value drawn = value.at(to_string(kind));
    if (!drawn.exists()) continue;
    ++kinds;
    setting.drawn.arrivals = kind;
    read_drawn(drawn, setting);
  }
  // A misspelt kind is reported by its own name.
  const bool is_empty = kinds == 0 && value.is_map() && std::ranges::all_of(value.keys(), [](const std::string& key) {
                          return key == "long_requests" || key == "seeds";
                        });
  if (kinds > 1 || is_empty || value.is_null())
    value.error("expected exactly one of requests, poisson, gamma, ramp, closed_loop");
}

void read_engine(const Value& value, ServingSetting& setting) {
  setting.engine = value.choice("kind", {"vllm", "sglang", "trtllm"}, "vllm");
  setting.memory_share = value.number(
      "gpu_memory_utilization",
      {.fallback = setting.engine == "sglang" ? 0 : 0.9, .min = setting.engine == "sglang" ? 0 : 0.01, .max = 1});
  setting.num_blocks = value.integer("num_blocks", {.fallback = 0, .min = 0, .max = kMaxBlocks});
  setting.max_model_len = value.integer("max_model_len", {.fallback = 0, .min = 0, .max = kMaxTokens});
  if (setting.max_model_len > 0 && setting.max_model_len < kMinModelLength) {
    value.at("max_model_len")
        .error(fmt::format("expected 0 (the model's own) or {}..{}, got {}", kMinModelLength, kMaxTokens,
                           setting.max_model_len));
  }
  setting.max_num_seqs = value.integer("max_num_seqs", {.fallback = 256, .min = 1, .max = 65536});
  setting.max_num_batched_tokens =
      value.integer("max_num_batched_tokens", {.fallback = 8192, .min = 1, .max = 1 << 20});
  setting.prefix_caching = value.boolean("prefix_caching", true);
  setting.watermark = value.number("watermark", {.fallback = 0, .min = 0, .max = 0.99});
}

}  // namespace

std::optional<ServingSetting> read_serving(const Value& root,
                                           const std::function<std::string(const std::string&)>& located) {
  const Value workload = root.at("workload"), engine = root.at("engine"), slo = root.at("slo");
  if (!workload.exists()) {
    for (const Value* orphan : {&engine, &slo}) {
      orphan->accept_all();
      if (orphan->exists()) orphan->error("needs a workload");
    }
    return std::nullopt;
  }
  ServingSetting setting;
  read_workload(workload, setting, located);
  read_engine(engine, setting);
  const auto seconds = [&](const char* key) {
    return slo.quantity(key, {.dimension = Dimension::time, .fallback = 0, .min = 0, .max = 1e6});
  };
  setting.objectives = {.ttft = seconds("ttft"), .tpot = seconds("tpot"), .latency = seconds("latency")};
  return setting;
}

std::string serving_text(const ServingSetting& setting, const std::string& requests_fingerprint) {
  const auto lengths = [](const LengthDistribution& one) {
    return fmt::format("{} {} {} {} {}", static_cast<int>(one.kind), one.mean, one.cv, one.low, one.high);
  };
  const serving::SyntheticWorkload& drawn = setting.drawn;
  std::string text =
      fmt::format("{} {} {} {} | {} {} {} {} {} {} {} {} {} | {} {} {} {} {} {} {} {} | {} {} {}", requests_fingerprint,
                  setting.rate_scale, setting.seeds, to_string(setting.long_requests), to_string(drawn.arrivals),
                  drawn.rate, drawn.end_rate, drawn.cv, drawn.users, drawn.think_seconds, lengths(drawn.input),
                  lengths(drawn.output), drawn.num_requests, setting.engine, setting.memory_share, setting.num_blocks,
                  setting.max_model_len, setting.max_num_seqs, setting.max_num_batched_tokens, setting.prefix_caching,
                  setting.watermark, setting.objectives.ttft, setting.objectives.tpot, setting.objectives.latency);
  for (const serving::SharedPrefix& prefix : drawn.prefixes) {
    text += fmt::format(" prefix {} {}", prefix.tokens, prefix.share);
  }
  return text;
}

}  // namespace kvtide::experiment
