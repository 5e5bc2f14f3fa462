#include "planning/plan_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planning/plan_reader.h"

namespace kvtide::planning {
namespace {

using Kind = config::AskedKey::Kind;

// Together they enter every branch of the reader. What they say beside that does not matter.
constexpr const char* kHead = R"(name: n
model: m
trace: t
workload: {seeds: 1}
engine: {tensor_parallel: 1, max_num_seqs: 1}
loss: {metric: mass_loss}
plan:
  gpus: [h100-sxm]
  slo: {ttft_p50: 1 s, ttft_p90: 1 s, ttft_p95: 1 s, ttft_p99: 1 s, tpot_p50: 1 s, tpot_p90: 1 s, tpot_p95: 1 s, tpot_p99: 1 s,
        latency_p50: 1 s, latency_p90: 1 s, latency_p95: 1 s, latency_p99: 1 s}
  loss: {}
  calibration: {}
)";
constexpr const char* kLists = R"(  tensor_parallel: [1]
  max_num_seqs: [1]
  block_size: [16]
  compression: [{label: l, value: none}]
  prices: {h100-sxm: {value: "1 USD/h"}}
  minimize: cost
)";

std::string kind_text(const config::AskedKey& key) {
  switch (key.kind) {
    case Kind::integer:
      return "integer";
    case Kind::number:
      return "number";
    case Kind::quantity:
      return "quantity";
    case Kind::boolean:
      return "true or false";
    case Kind::text:
      return "text";
    case Kind::map:
      return "mapping";
    case Kind::list:
      return "list";
    case Kind::choice:
      return fmt::format("{}", fmt::join(key.choices, ", "));
  }
  return "";
}

}  // namespace

std::vector<config::AskedKey> plan_keys() {
  std::vector<config::AskedKey> keys;
  for (const char* rest : {kLists, "  maximize: rate\n"}) {
    config::Document document = config::Document::parse(std::string(kHead) + rest, "example");
    document.record_asked();
    (void)read_plan(document, "example", ".");
    for (const config::AskedKey& key : document.asked()) {
      const bool is_known = std::ranges::find(keys, key.path, &config::AskedKey::path) != keys.end();
      if (!key.path.empty() && !is_known) keys.push_back(key);
    }
  }
  return keys;
}

std::string table_cells(const config::AskedKey& key) {
  std::string takes = kind_text(key);
  if (key.min && key.max) takes += fmt::format(", {}..{}", *key.min, *key.max);
  return fmt::format("| `{}` | {} | {} |", key.path, takes, key.fallback);
}

}  // namespace kvtide::planning
