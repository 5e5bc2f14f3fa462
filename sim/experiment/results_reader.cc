#include "experiment/results_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "experiment/columns.h"
#include "experiment/result_arrays.h"
#include "hdf5/child_trial.h"

namespace kvtide::experiment {
namespace {

using hdf5::InputFile;

std::optional<Shard> parse_shard(const InputFile& file) {
  if (!file.has_attribute("/", "shard")) return std::nullopt;
  const std::string text = file.string_attribute("/", "shard");
  const std::size_t slash = text.find('/');
  Shard shard;
  const auto is_number = [](std::string_view part, std::int64_t& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc{} && end == part.data() + part.size();
  };
  if (slash == std::string::npos || !is_number(std::string_view(text).substr(0, slash), shard.index) ||
      !is_number(std::string_view(text).substr(slash + 1), shard.count) || shard.index < 0 ||
      shard.index >= shard.count) {
    throw InputError(fmt::format("{}: attribute shard: expected I/N, got \"{}\"", file.path(), text.substr(0, 80)));
  }
  return shard;
}

ResultsHead read_head(const InputFile& file) {
  if (const std::int64_t version = file.integer_attribute("/", "schema_version"); version != kSchemaVersion) {
    throw InputError(fmt::format("{}: schema version {}: this kvtide reads {}", file.path(), version, kSchemaVersion));
  }
  ResultsHead head;
  head.title = file.string_attribute("/", "title");
  head.experiment_yaml = file.string_attribute("/", "experiment_yaml");
  if (file.has_attribute("/", "included_yaml")) head.included_yaml = file.string_attribute("/", "included_yaml");
  head.experiment_overrides = file.string_attribute("/", "experiment_overrides");
  head.experiment_key = file.string_attribute("/", "experiment_key");
  head.warnings = file.string_attribute("/", "warnings");
  head.num_runs = file.integer_attribute("/", "num_runs");
  head.shard = parse_shard(file);
  for (const std::string& key : split_lines(file.string_attribute("/", "swept_keys"))) {
    const hdf5::ElementType type = file.info("/summary/" + key).type;
    head.axes.emplace_back(key, type == hdf5::ElementType::int64     ? AxisType::integer
                                : type == hdf5::ElementType::float64 ? AxisType::number
                                                                     : AxisType::text);
  }
  return head;
}

}  // namespace

ResultsReader::ResultsReader(const std::string& path, Reading reading) : file_(open_tried(path, reading)) {
  const std::scoped_lock lock(hdf5::library_mutex());
  read();
}

ResultsReader::ResultsReader(InputFile untried) : file_(std::move(untried)) {
  read();
}

InputFile ResultsReader::open_tried(const std::string& path, Reading reading) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw InputError(fmt::format("{}: no such file (expected a results file of kvtide run)", path));
  }
  hdf5::require_trial(path, [&] {
    const ResultsReader tried{InputFile(path)};
    for (std::size_t row = 0; reading == Reading::runs && row < tried.records().size(); ++row) {
      try {
        (void)tried.result(row);
      } catch (const Error&) {
        // The caller gets it at this row; the library may still crash at a later one.
      }
    }
  });
  const std::scoped_lock lock(hdf5::library_mutex());
  return InputFile(path);
}

void ResultsReader::read() {
  head_ = read_head(file_);
  provenance_ = {file_.string_attribute("/", "kvtide_version"), file_.string_attribute("/", "source_commit"),
                 file_.string_attribute("/", "created")};
  const std::vector<std::int64_t> indices = file_.read_integers("/summary/run");
  const auto add_column = [&](const std::string& name) {
    const std::string dataset = "/summary/" + name;
    std::size_t length = 0;
    if (file_.info(dataset).type == hdf5::ElementType::string) {
      length = (texts_[name] = file_.read_strings(dataset)).size();
    } else {
      length = (numbers_[name] = file_.read_doubles(dataset)).size();
      if (file_.info(dataset).type == hdf5::ElementType::int64) integers_[name] = file_.read_integers(dataset);
    }
    if (length != indices.size()) {
      throw InputError(fmt::format("{}: {}: {} values for {} runs", path(), dataset, length, indices.size()));
    }
    column_names_.push_back(name);
  };
  const std::vector<std::string> present = file_.children("/summary");
  const auto is_present = [&present](const std::string& name) {
    return std::ranges::find(present, name) != present.end();
  };
  for (const auto& [column, type] : head_.axes) add_column(column);
  for (const Column& column : columns()) {
    if (is_present(column.name)) add_column(column.name);
  }
  for (const std::string& name : present) {
    const bool is_known = name == "run" || std::ranges::find(column_names_, name) != column_names_.end();
    if (!is_known && !file_.is_group("/summary/" + name)) add_column(name);
  }
  for (const char* required : {"status", "status_reason", "warnings", "loss_model", "run_seed"}) {
    if (!texts_.contains(required)) throw InputError(fmt::format("{}: /summary/{} is missing", path(), required));
  }
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const std::string group = fmt::format("/runs/{}", run_name(indices[row]));
    RunRecord record{.index = indices[row],
                     .key = file_.string_attribute(group, "run_key"),
                     .seed = texts_.at("run_seed")[row],
                     .compression = file_.string_attribute(group, "compression"),
                     .grid_offset = file_.integer_attribute(group, "grid_offset_setting"),
                     .texts = {},
                     .numbers = {},
                     .labels = {}};
    for (const char* name : {"model", "gpu"}) {
      const auto found = texts_.find(std::string(name) + "_setting");
      if (found != texts_.end()) record.texts[name] = found->second[row];
    }
    for (const char* name : {"context_tokens", "batch", "loss_span"}) {
      const auto found = numbers_.find(std::string(name) + "_setting");
      if (found != numbers_.end() && std::abs(found->second[row]) < 1e15)
        record.numbers[name] = std::llround(found->second[row]);
    }
    if (const auto baselines = numbers_.find("baseline_run");
        baselines != numbers_.end() && baselines->second[row] >= 0 && baselines->second[row] < kMaxRuns) {
      record.baseline = static_cast<std::int64_t>(baselines->second[row]);
    }
    for (const auto& [column, type] : head_.axes) {
      record.labels.push_back(type == AxisType::text      ? texts_.at(column)[row]
                              : type == AxisType::integer ? fmt::format("{}", integers_.at(column)[row])
                                                          : fmt::format("{}", numbers_.at(column)[row]));
    }
    records_.push_back(std::move(record));
  }
}

RunResult ResultsReader::result(std::size_t row) const {
  const std::scoped_lock lock(hdf5::library_mutex());
  RunResult result;
  result.status = texts_.at("status")[row] == to_string(RunStatus::ok) ? RunStatus::ok : RunStatus::failed;
  result.status_reason = texts_.at("status_reason")[row];
  if (!texts_.at("warnings")[row].empty()) result.warnings.push_back(texts_.at("warnings")[row]);
  result.loss_model = texts_.at("loss_model")[row];
  if (const auto tokens = numbers_.find("loss_tokens"); tokens != numbers_.end() && !std::isnan(tokens->second[row])) {
    result.loss_tokens = std::llround(tokens->second[row]);
  }
  for (const Column& column : columns()) {
    const std::string name = column.name;
    if (name == "status" || name == "status_reason" || name == "warnings" || name == "loss_model" ||
        name == "loss_tokens" || name == "run_seed" || name.ends_with("_setting")) {
      continue;  // written from the record and the fields above
    }
    if (const auto found = numbers_.find(name); found != numbers_.end() && !std::isnan(found->second[row])) {
      result.numbers[name] = found->second[row];
    }
    if (const auto found = texts_.find(name); found != texts_.end() && !found->second[row].empty()) {
      result.texts[name] = found->second[row];
    }
  }
  read_arrays(file_, fmt::format("/runs/{}", run_name(records_[row].index)), result);
  return result;
}

}  // namespace kvtide::experiment
