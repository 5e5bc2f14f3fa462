#include "experiment/trace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "attention/synthetic.h"
#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::experiment {
namespace {

using attention::SyntheticSpec;

/// A parameter of the generator by its name in the experiment file.
struct Parameter {
  const char* name;
  std::variant<std::int64_t SyntheticSpec::*, double SyntheticSpec::*> member;
};

constexpr std::array kParameters{
    Parameter{"tokens", &SyntheticSpec::tokens},
    Parameter{"layers", &SyntheticSpec::layers},
    Parameter{"query_heads", &SyntheticSpec::query_heads},
    Parameter{"kv_heads", &SyntheticSpec::kv_heads},
    Parameter{"head_dim", &SyntheticSpec::head_dim},
    Parameter{"question_tokens", &SyntheticSpec::question_tokens},
    Parameter{"queries", &SyntheticSpec::queries},
    Parameter{"strength", &SyntheticSpec::strength},
    Parameter{"needle_start", &SyntheticSpec::needle_start},
    Parameter{"needle_length", &SyntheticSpec::needle_length},
    Parameter{"sinks", &SyntheticSpec::sinks},
    Parameter{"half_life", &SyntheticSpec::half_life},
    Parameter{"correlation", &SyntheticSpec::correlation},
    Parameter{"deviation", &SyntheticSpec::deviation},
    Parameter{"theta", &SyntheticSpec::theta},
    Parameter{"pair", &SyntheticSpec::pair},
};

void assign(SyntheticSpec& spec, const std::string& name, double value) {
  std::vector<std::string> known;
  for (const Parameter& parameter : kParameters) {
    if (name == parameter.name) {
      if (const auto* number = std::get_if<double SyntheticSpec::*>(&parameter.member)) {
        spec.*(*number) = value;
        return;
      }
      if (value != std::floor(value) || std::abs(value) > 1e15) {
        throw InputError(fmt::format("trace.synthetic.{}: expected an integer, got {}", name, value));
      }
      spec.*std::get<std::int64_t SyntheticSpec::*>(parameter.member) = static_cast<std::int64_t>(value);
      return;
    }
    known.emplace_back(parameter.name);
  }
  const std::string nearest = nearest_name(name, known);
  throw InputError(fmt::format("trace.synthetic: unknown parameter {}{}", name,
                               nearest.empty() ? "" : ", did you mean " + nearest + "?"));
}

}  // namespace

bool is_whole_parameter(const std::string& name) {
  return std::ranges::any_of(kParameters, [&name](const Parameter& parameter) {
    return name == parameter.name && std::holds_alternative<std::int64_t SyntheticSpec::*>(parameter.member);
  });
}

attention::Trace open_trace(const TraceSource& source, std::uint64_t seed) {
  if (source.kind == TraceKind::recorded) return attention::Trace::open(source.path, source.companion);
  SyntheticSpec spec;
  spec.kind = attention::synthetic_kind(source.synthetic_kind);
  spec.seed = seed;
  for (const auto& [name, value] : source.parameters) assign(spec, name, value);
  return attention::make_synthetic(spec);
}

}  // namespace kvtide::experiment
