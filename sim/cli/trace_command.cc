#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>

#include "attention/synthetic.h"
#include "attention/trace.h"
#include "attention/trace_writer.h"
#include "base/error.h"
#include "base/json_object.h"
#include "cli/command.h"
#include "cli/table.h"
#include "experiment/trace_source.h"

namespace kvtide::cli {
namespace {

const std::string& only_file(const Arguments& arguments) {
  if (arguments.positional.size() < 2)
    throw InputError(fmt::format("kvtide trace {}: expected a file", arguments.positional[0]));
  return arguments.positional[1];
}

std::string info_json(const attention::Trace& trace) {
  const attention::TraceInfo& found = trace.info();
  const std::vector<std::int64_t> queries = trace.query_positions(0);
  const auto range = [](const auto& positions) { return fmt::format("[{}, {}]", positions.first, positions.last); };
  return JsonObject()
      .text("format", found.format)
      .text("model", found.model)
      .number("num_model_layers", found.num_model_layers)
      .raw("layers", fmt::format("[{}]", fmt::join(found.layers, ", ")))
      .number("num_query_heads", found.num_query_heads)
      .number("num_kv_heads", found.num_kv_heads)
      .number("head_dim", found.head_dim)
      .number("rope_theta", found.rope_theta)
      .number("num_tokens", found.num_tokens)
      .number("num_context", found.num_context)
      .number("num_queries", queries.size())
      .raw("question", range(found.question))
      .raw("answer", range(found.answer))
      .number("num_probes", trace.probes().size())
      .str();
}

/// "100000", "none", or "10000, 1e+06 by layer"
std::string rope_text(const attention::TraceInfo& info) {
  const std::set<double> by_layer(info.layer_rope_thetas.begin(), info.layer_rope_thetas.end());
  if (!by_layer.empty()) return fmt::format("{:g} by layer", fmt::join(by_layer, ", "));
  return info.rope_theta == 0 ? "none" : fmt::format("{:g}", info.rope_theta);
}

int info(const Arguments& arguments) {
  const attention::Trace trace = attention::Trace::open(only_file(arguments));
  const attention::TraceInfo& found = trace.info();
  if (arguments.has("json")) {
    fmt::print("{}\n", info_json(trace));
    return kDone;
  }
  Table table({{"field", Align::left}, {"value", Align::left}});
  const auto row = [&table](const char* name, const std::string& value) { table.add_row({name, value}); };
  row("format", found.format);
  row("model", fmt::format("{} ({} layers)", found.model, found.num_model_layers));
  row("recorded layers", fmt::format("{}", fmt::join(found.layers, ", ")));
  row("heads", fmt::format("{} query, {} KV, head_dim {}", found.num_query_heads, found.num_kv_heads, found.head_dim));
  row("RoPE base", rope_text(found));
  row("tokens", fmt::format("{}, of which {} are context", found.num_tokens, found.num_context));
  const std::vector<std::int64_t> queries = trace.query_positions(0);
  if (!queries.empty()) row("queries", fmt::format("{} at {}..{}", queries.size(), queries.front(), queries.back()));
  row("question queries", fmt::format("{}..{}", found.question.first, found.question.last));
  row("answer queries", fmt::format("{}..{}", found.answer.first, found.answer.last));
  row("probes", fmt::format("{}", trace.probes().size()));
  fmt::print("{}", table.text());
  return kDone;
}

int check(const Arguments& arguments) {
  const std::vector<std::string> findings = attention::check_trace(only_file(arguments));
  if (arguments.has("json")) {
    fmt::print("{}\n", JsonObject()
                           .text("file", only_file(arguments))
                           .flag("sound", findings.empty())
                           .raw("findings", json_texts(findings))
                           .str());
    return findings.empty() ? kDone : kWrongInput;
  }
  for (const std::string& finding : findings) fmt::print(stderr, "{}\n", finding);
  if (findings.empty()) fmt::print("{}: sound\n", only_file(arguments));
  return findings.empty() ? kDone : kWrongInput;
}

int synth(const Arguments& arguments) {
  const std::string& path = only_file(arguments);
  experiment::TraceSource source;
  source.kind = experiment::TraceKind::synthetic;
  source.synthetic_kind = arguments.text("kind").value_or("uniform");
  for (const std::string& assignment : arguments.all("set")) {
    const std::size_t equals = assignment.find('=');
    double value = 0;
    const char* begin = assignment.data() + (equals == std::string::npos ? 0 : equals + 1);
    const char* end = assignment.data() + assignment.size();
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (equals == std::string::npos || error != std::errc{} || rest != end) {
      throw InputError(fmt::format("--set: expected parameter=number, got \"{}\"", assignment));
    }
    source.parameters.emplace_back(assignment.substr(0, equals), value);
  }
  const attention::Trace trace =
      experiment::open_trace(source, static_cast<std::uint64_t>(arguments.integer("seed", 0, INT64_MAX).value_or(1)));
  attention::write_trace(path, trace);
  if (arguments.has("json")) {
    fmt::print("{}\n", JsonObject()
                           .text("file", path)
                           .number("num_tokens", trace.info().num_tokens)
                           .number("num_layers", trace.num_layers())
                           .text("origin", trace.info().origin)
                           .str());
    return kDone;
  }
  fmt::print("{}: {} tokens, {} layers, {}\n", path, trace.info().num_tokens, trace.num_layers(), trace.info().origin);
  return kDone;
}

int run(const Arguments& arguments) {
  const std::string& action = arguments.positional[0];
  if (action == "info") return info(arguments);
  if (action == "check") return check(arguments);
  if (action == "synth") return synth(arguments);
  throw InputError(fmt::format("kvtide trace: expected info, check or synth, got \"{}\"", action));
}

}  // namespace

Command trace_command() {
  return {.name = "trace",
          .positional = "info|check|synth FILE.h5",
          .min_positional = 2,
          .max_positional = 2,
          .summary = "look at, validate or make attention traces",
          .options = {{"kind", "KIND", "synth: uniform, needle, recency, ar1 or rope (default: uniform)"},
                      {"set", "NAME=NUMBER", "synth: a parameter of the generator, e.g. tokens=8192; repeatable"},
                      {"seed", "N", "synth: seed (default: 1)"},
                      {"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide trace check experiments/traces/smollm2-135m-2k.h5",
                       "kvtide trace synth needle.h5 --kind needle --set tokens=4096 --set strength=12"},
          .run = &run};
}

}  // namespace kvtide::cli
