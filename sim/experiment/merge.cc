#include "experiment/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "experiment/results_reader.h"

namespace kvtide::experiment {
namespace {

struct Source {
  const ResultsReader* shard;
  std::size_t row;
};

void require_same_experiment(const ResultsReader& first, const ResultsReader& other) {
  if (other.head().experiment_key != first.head().experiment_key || other.head().axes != first.head().axes ||
      other.head().num_runs != first.head().num_runs) {
    throw InputError(fmt::format("{}: holds another experiment than {} (keys {} and {})", other.path(), first.path(),
                                 other.head().experiment_key, first.head().experiment_key));
  }
  if (other.provenance().kvtide_version != first.provenance().kvtide_version ||
      other.provenance().source_commit != first.provenance().source_commit) {
    throw InputError(fmt::format("{}: written by kvtide {} ({}), {} by {} ({}): their results may differ", other.path(),
                                 other.provenance().kvtide_version, other.provenance().source_commit, first.path(),
                                 first.provenance().kvtide_version, first.provenance().source_commit));
  }
}

std::string missing_runs(const std::map<std::int64_t, Source>& sources, std::int64_t num_runs) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (std::int64_t index = 0; index < num_runs && names.size() <= kShown; ++index) {
    if (!sources.contains(index)) names.push_back(run_name(index));
  }
  if (names.size() > kShown) names.back() = "...";
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::size_t merge_results(const std::string& output, const std::vector<std::string>& shards) {
  std::vector<std::unique_ptr<ResultsReader>> readers;
  std::map<std::int64_t, Source> sources;
  for (const std::string& path : shards) {
    readers.push_back(std::make_unique<ResultsReader>(path));
    const ResultsReader& reader = *readers.back();
    require_same_experiment(*readers.front(), reader);
    for (std::size_t row = 0; row < reader.records().size(); ++row) {
      const std::int64_t index = reader.records()[row].index;
      const auto [found, is_new] = sources.emplace(index, Source{&reader, row});
      // The same run twice is the same result; an ok one replaces a failed one.
      if (!is_new && found->second.shard->texts("status")[found->second.row] != to_string(RunStatus::ok)) {
        found->second = {&reader, row};
      }
    }
  }
  ResultsHead head = readers.front()->head();
  head.shard.reset();
  if (sources.size() != static_cast<std::size_t>(std::max<std::int64_t>(head.num_runs, 0))) {
    throw InputError(fmt::format("{} of {} runs are in these files; missing: {}", sources.size(), head.num_runs,
                                 missing_runs(sources, head.num_runs)));
  }
  std::vector<RunRecord> records;
  std::vector<Source> order;
  for (const auto& [index, source] : sources) {
    records.push_back(source.shard->records()[source.row]);
    order.push_back(source);
  }
  Provenance provenance = readers.front()->provenance();
  provenance.created = creation_time();
  write_results(
      output, head, records, [&order](std::size_t row) { return order[row].shard->result(order[row].row); },
      provenance);
  return records.size();
}

}  // namespace kvtide::experiment
