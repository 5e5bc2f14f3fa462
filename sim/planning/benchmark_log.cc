#include "planning/benchmark_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/error.h"
#include "config/yaml_value.h"

namespace kvtide::planning {
namespace {

constexpr std::size_t kMaxRuns = 1000;
constexpr double kLeastMs = 1e-3, kMostMs = 1e9;
constexpr double kLeastRate = 1e-4;  // requests/s

/// Figures of one run by their JSON name.
struct Figures {
  std::int64_t line = 1;
  std::map<std::string, double> values;
  std::map<std::string, double> announced{};  ///< what the client was told, before the block
};

/// Printed names, in lower case without units, -> JSON names.
const std::map<std::string, std::string>& printed_names() {
  static const std::map<std::string, std::string> names{
      {"successful requests", "completed"},
      {"total input tokens", "total_input_tokens"},
      {"total generated tokens", "total_output_tokens"},
      {"mean ttft", "mean_ttft_ms"},
      {"mean tpot", "mean_tpot_ms"},
      {"request rate configured", "request_rate"},
      {"traffic request rate", "request_rate"},
      {"maximum request concurrency", "max_concurrency"},
      {"max request concurrency", "max_concurrency"},
      {"max reqeust concurrency", "max_concurrency"},  // as SGLang spells it
  };
  return names;
}

/// A line of "=" alone. A block that was cut short ends where the next run is announced: that stands above a block's times.
bool ends_block(const std::string& line, const std::string& key, const Figures& block) {
  if (line.find('=') != std::string::npos && line.find_first_not_of("= \t\r") == std::string::npos) return true;
  return (key == "request_rate" || key == "max_concurrency") && block.values.contains("mean_tpot_ms");
}

/// None for what is no number; infinity for "inf".
bool read_number(const std::string& text, double& value) {
  char* rest = nullptr;
  value = std::strtod(text.c_str(), &rest);
  while (*rest != '\0' && std::isspace(static_cast<unsigned char>(*rest)) != 0) ++rest;
  return rest != text.c_str() && *rest == '\0' && !std::isnan(value);
}

/// "Mean TPOT (ms):  24.3" -> mean_tpot_ms, 24.3.
bool read_printed(const std::string& line, std::string& name, double& value) {
  const std::size_t colon = line.rfind(':');
  if (colon == std::string::npos || !read_number(line.substr(colon + 1), value)) return false;
  std::string key = line.substr(0, std::min(colon, line.find(" (")));
  key.erase(0, key.find_first_not_of(" \t"));
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = printed_names().find(key);
  if (found == printed_names().end()) return false;
  name = found->second;
  return true;
}

Figures figures_of_json(const std::string& text, const std::string& name, std::int64_t line) {
  const config::Document document = config::Document::parse(text, name);
  const config::Value root = document.root();
  Figures figures{.line = line, .values = {}};
  if (!root.is_map()) throw InputError(fmt::format("{}:{}: expected a JSON object", name, line));
  for (const auto& [printed, key] : printed_names()) {
    const config::Value value = root.at(key);
    double number = 0;
    if (value.exists() && value.is_scalar() && read_number(value.text(), number)) figures.values[key] = number;
  }
  return figures;
}

MeasuredRun run_of(const Figures& figures, const std::string& name) {
  const auto value = [&](const char* key) {
    const auto found = figures.values.find(key);
    if (found == figures.values.end() || !(found->second > 0) || !std::isfinite(found->second)) {
      throw InputError(fmt::format("{}:{}: the run has no {} above 0", name, figures.line, key));
    }
    return found->second;
  };
  const auto optional = [&](const char* key) {
    const auto found = figures.values.find(key);
    return found == figures.values.end() || !std::isfinite(found->second) ? 0 : std::max(0.0, found->second);
  };
  const auto require = [&](bool is_good, const char* key, const char* allowed) {
    if (!is_good) throw InputError(fmt::format("{}:{}: {}: expected {}", name, figures.line, key, allowed));
  };
  MeasuredRun run;
  run.line = figures.line;
  const double requests = value("completed");
  if (requests > 1e6) throw InputError(fmt::format("{}:{}: more than a million requests", name, figures.line));
  require(requests == std::floor(requests), "completed", "a whole number");
  run.requests = std::llround(requests);
  run.mean_input = std::clamp(value("total_input_tokens") / requests, 1.0, 1e7);
  run.mean_output = std::clamp(value("total_output_tokens") / requests, 1.0, 1e7);
  run.mean_ttft = value("mean_ttft_ms") * 1e-3;
  run.mean_tpot = value("mean_tpot_ms") * 1e-3;
  require(run.mean_output >= 1.5, "total_output_tokens", "at least 2 a request: one token has no time between tokens");
  for (const char* key : {"mean_ttft_ms", "mean_tpot_ms"}) {
    require(value(key) >= kLeastMs && value(key) <= kMostMs, key, "1e-3..1e9 ms");
  }
  run.rate = optional("request_rate");
  require(run.rate == 0 || run.rate >= kLeastRate, "request_rate", "0, inf or at least 1e-4 requests/s");
  run.concurrency = std::llround(std::min(1e6, optional("max_concurrency")));
  return run;
}

}  // namespace

std::vector<MeasuredRun> read_benchmarks(const std::string& text, const std::string& name) {
  std::vector<Figures> found;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const auto is_object = [](const std::string& one) {
    const std::size_t begin = one.find_first_not_of(" \t");
    return begin != std::string::npos && one[begin] == '{';
  };
  std::istringstream lines(text);
  std::string line;
  std::int64_t number = 0;
  std::map<std::string, double> announced;
  bool is_in_block = false;
  if (first != std::string::npos && text[first] == '{' && text.find("\n{", first) == std::string::npos) {
    found.push_back(figures_of_json(text, name, 1));  // over any number of lines
    lines.str("");
  }
  while (std::getline(lines, line)) {
    ++number;
    if (found.size() > kMaxRuns) throw InputError(fmt::format("{}: more than {} runs", name, kMaxRuns));
    std::string key;
    double value = 0;
    if (is_object(line)) {
      found.push_back(figures_of_json(line, name, number));
      is_in_block = false;
      announced.clear();
      continue;
    }
    if (line.find("Serving Benchmark Result") != std::string::npos) {
      found.push_back({.line = number, .values = {}, .announced = std::move(announced)});
      is_in_block = true;
      announced.clear();
      continue;
    }
    const bool has_figure = read_printed(line, key, value);
    is_in_block = is_in_block && !ends_block(line, key, found.back());
    if (!has_figure) continue;
    if (is_in_block) {
      found.back().values.emplace(key, value);
    } else {
      announced.insert_or_assign(key, value);
    }
  }
  for (Figures& figures : found) figures.values.merge(figures.announced);  // a block's own figures stay
  std::vector<MeasuredRun> runs;
  runs.reserve(found.size());
  for (const Figures& figures : found) runs.push_back(run_of(figures, name));
  if (runs.empty()) {
    throw InputError(
        fmt::format("{}: no run: expected the printed or saved result of vLLM's or SGLang's serving benchmark", name));
  }
  return runs;
}

}  // namespace kvtide::planning
