#include "experiment/workload_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace kvtide::experiment {
namespace {

using config::Value;
using serving::ArrivalKind;
using serving::LengthDistribution;

constexpr std::int64_t kMaxTokens = 1 << 24;
constexpr std::int64_t kMaxPriority = 1'000'000;
constexpr double kMaxRate = 1e6;

double read_rate(const Value& value) {
  const double rate = value.as_quantity({.dimension = Dimension::rate, .fallback = {}, .min = 1e-6, .max = kMaxRate});
  return rate > 0 ? rate : 1;
}

double read_share(const Value& value) {
  return value.number("share", {.fallback = 1, .min = 0, .max = 1});
}

template <typename Part>
void check_shares(const Value& list, const std::vector<Part>& parts) {
  double shares = 0;
  for (const Part& part : parts) shares += part.share;
  if (shares > 1 + 1e-9) list.error(fmt::format("shares add up to {}, expected at most 1", shares));
}

constexpr const char* kLengthForms = "expected a number of tokens, {lognormal: {mean, cv}} or {uniform: {min, max}}";

LengthDistribution read_lengths(const Value& value) {
  LengthDistribution lengths;
  if (value.is_map() && value.keys().size() > 1) {
    value.accept_all();
    value.error(fmt::format("{}: one of them, got {}", kLengthForms, value.text()));
    return lengths;
  }
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
    value.error(kLengthForms);
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
  if (const Value classes = value.at("priorities"); classes.exists()) {
    for (const Value& one : classes.items()) {
      drawn.priorities.push_back(
          {.priority = one.integer("priority", {.min = -kMaxPriority, .max = kMaxPriority}), .share = read_share(one)});
    }
    check_shares(classes, drawn.priorities);
  }
  if (const Value prefixes = value.at("prefixes"); prefixes.exists()) {
    for (const Value& prefix : prefixes.items()) {
      drawn.prefixes.push_back(
          {.tokens = prefix.integer("tokens", {.min = 1, .max = kMaxTokens}), .share = read_share(prefix)});
    }
    check_shares(prefixes, drawn.prefixes);
  }
}

void check_file(const Value& value, const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) {
    value.error(fmt::format("no file {}", path));
  } else if (!std::filesystem::is_regular_file(path, failure)) {
    value.error(fmt::format("expected a CSV file, {} is none", path));
  }
}

void read_front(const Value& value, serving::Front& front) {
  if (!value.exists()) return;
  const Value texts = value.at("texts");
  if (!texts.exists()) {
    value.error("expected texts: a list of {name, tokens, share}");
    return;
  }
  for (const Value& text : texts.items()) {
    front.texts.push_back({.name = text.string("name", fmt::format("text {}", front.texts.size())),
                           .tokens = read_lengths(text.at("tokens")),
                           .share = read_share(text)});
  }
  check_shares(value, front.texts);
  front.is_padded = value.boolean("padding", false);
}

void read_workload_kind(const Value& value, ServingSetting& setting,
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
    check_file(requests, setting.requests);
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
                          return key == "long_requests" || key == "seeds" || key == "front" || key == "facts";
                        });
  if (kinds > 1 || is_empty || value.is_null())
    value.error("expected exactly one of requests, poisson, gamma, ramp, closed_loop");
}

}  // namespace

void read_workload(const Value& value, ServingSetting& setting,
                   const std::function<std::string(const std::string&)>& located) {
  read_workload_kind(value, setting, located);
  read_front(value.at("front"), setting.front);
  if (const Value facts = value.at("facts"); facts.exists()) {
    setting.facts = located(facts.as_string());
    check_file(facts, setting.facts);
  }
}

std::string workload_text(const ServingSetting& setting) {
  std::string text;
  for (const serving::PriorityClass& one : setting.drawn.priorities) {
    text += fmt::format(" priority {} {}", one.priority, one.share);
  }
  for (const serving::FrontText& one : setting.front.texts) {
    text += fmt::format(" front {} {} {} {} {} {}", static_cast<int>(one.tokens.kind), one.tokens.mean, one.tokens.cv,
                        one.tokens.low, one.tokens.high, one.share);
  }
  if (setting.front.is_padded) text += " padded";
  return text;
}

}  // namespace kvtide::experiment
