#include "experiment/result_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "experiment/columns.h"
#include "experiment/result_arrays.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using hdf5::Description;
using hdf5::OutputFile;

std::string without_nul(std::string text) {
  std::erase(text, '\0');
  return text;
}

/// A file's name without folder and ending, so that results do not depend on where the files are: "my/llama.json" ->
/// "llama". A config.json is named after its folder.
std::string shown_name(const std::string& name) {
  const std::filesystem::path path(name);
  const std::string ending = path.extension().string();
  if (ending != ".json" && ending != ".yaml" && ending != ".yml") return name;
  const std::string folder = path.parent_path().filename().string();
  const std::string stem = path.stem().string();
  return stem == "config" && !folder.empty() && folder != "." && folder != ".." ? folder : stem;
}

std::string hexadecimal(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

void write_run(OutputFile& file, const std::string& group, const RunRecord& record, const RunResult& result) {
  file.create_group(group);
  file.attribute(group, "run_key", record.key);
  file.attribute(group, "compression", record.compression);
  file.attribute(group, "grid_offset_setting", record.grid_offset);
  file.attribute(group, "status", to_string(result.status));
  write_arrays(file, group, result);
}

/// Values of every column, run by run.
class Summary {
 public:
  Summary(const ResultsHead& head, const std::vector<RunRecord>& records) : head_(head), records_(records) {
    for (const Column& column : columns()) {
      if (column.type == ColumnType::number) {
        numbers_[column.name].assign(records.size(), kNaN);
      } else {
        texts_[column.name].assign(records.size(), "");
      }
    }
  }

  void add(std::size_t row, const RunResult& result) {
    for (const auto& [name, value] : result.numbers) numbers_[name][row] = value;
    for (const auto& [name, value] : result.texts) texts_[name][row] = without_nul(value);
    texts_["status"][row] = to_string(result.status);
    texts_["status_reason"][row] = result.status_reason;
    texts_["warnings"][row] = fmt::format("{}", fmt::join(result.warnings, "; "));
    texts_["loss_model"][row] = result.loss_model;
    texts_["run_seed"][row] = records_[row].seed;
    texts_["compression_setting"][row] = records_[row].compression;
    for (const auto& [name, text] : records_[row].texts) texts_[name + "_setting"][row] = without_nul(text);
    for (const auto& [name, number] : records_[row].numbers)
      numbers_[name + "_setting"][row] = static_cast<double>(number);
    if (const auto metric = result.texts.find("loss_metric"); metric != result.texts.end()) {
      loss_metrics_.insert(metric->second);
    }
    if (!result.loss_model.empty()) {
      numbers_["loss_tokens"][row] = static_cast<double>(result.loss_tokens);
      loss_models_.insert(result.loss_model);
      loss_tokens_.insert(result.loss_tokens);
    }
  }

  /// Figures of each run against its baseline, where both are here and ok.
  void compare_with_baselines() {
    std::map<std::int64_t, std::size_t> row_of;
    for (std::size_t row = 0; row < records_.size(); ++row) row_of[records_[row].index] = row;
    for (std::size_t row = 0; row < records_.size(); ++row) {
      if (records_[row].baseline < 0) continue;
      numbers_["baseline_run"][row] = static_cast<double>(records_[row].baseline);
      const auto base = row_of.find(records_[row].baseline);
      if (base == row_of.end()) continue;  // in another shard; merge fills it in
      for (const BaselineColumn& column : baseline_columns()) {
        const std::vector<double>& values = numbers_.at(column.of);
        const double own = values[row], other = values[base->second];
        numbers_[column.name][row] = column.is_ratio ? (other == 0 ? kNaN : own / other) : own - other;
      }
    }
  }

  void write(OutputFile& file) const {
    const std::string loss_units = loss_metrics_ == std::set{to_string(LossMetric::bits_lost)} ? "bit" : "1";
    std::vector<std::int64_t> indices;
    for (const RunRecord& record : records_) indices.push_back(record.index);
    file.dimension("/summary/run", indices, {"index of the run; its arrays are in /runs/<index, five digits>", "1"});
    for (std::size_t axis = 0; axis < head_.axes.size(); ++axis) write_axis(file, axis);
    for (const Column& column : columns()) {
      const std::string path = fmt::format("/summary/{}", column.name);
      const Description description{column.definition,
                                    column.units == std::string_view(kLossUnits) ? loss_units : column.units};
      if (column.type == ColumnType::number) {
        file.write(path, std::span<const double>(numbers_.at(column.name)), {"/summary/run"}, description);
      } else {
        file.write(path, std::span<const std::string>(texts_.at(column.name)), {"/summary/run"}, description);
      }
    }
  }

  [[nodiscard]] std::string loss_model() const { return fmt::format("{}", fmt::join(loss_models_, ", ")); }
  [[nodiscard]] std::vector<std::int64_t> loss_tokens() const { return {loss_tokens_.begin(), loss_tokens_.end()}; }

 private:
  void write_axis(OutputFile& file, std::size_t axis_index) const {
    const auto& [column, type] = head_.axes[axis_index];
    const std::string path = fmt::format("/summary/{}", column);
    const Description description{fmt::format("swept key {}", column), "1"};
    std::vector<std::int64_t> integers;
    std::vector<double> numbers;
    std::vector<std::string> texts;
    for (const RunRecord& record : records_) {
      const std::string& label = record.labels[axis_index];
      std::int64_t integer = 0;
      double number = 0;
      std::from_chars(label.data(), label.data() + label.size(), integer);
      std::from_chars(label.data(), label.data() + label.size(), number);
      integers.push_back(integer);
      numbers.push_back(number);
      texts.push_back(without_nul(label));
    }
    switch (type) {
      case AxisType::integer:
        return file.write(path, std::span<const std::int64_t>(integers), {"/summary/run"}, description);
      case AxisType::number:
        return file.write(path, std::span<const double>(numbers), {"/summary/run"}, description);
      case AxisType::text:
        return file.write(path, std::span<const std::string>(texts), {"/summary/run"}, description);
    }
  }

  const ResultsHead& head_;
  const std::vector<RunRecord>& records_;
  std::map<std::string, std::vector<double>> numbers_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::set<std::string> loss_metrics_;
  std::set<std::string> loss_models_;
  std::set<std::int64_t> loss_tokens_;
};

void write_root(OutputFile& file, const ResultsHead& head, const Provenance& provenance, const Summary& summary) {
  file.attribute("/", "title", head.title);
  file.attribute("/", "Conventions", std::string("CF-1.10"));
  file.attribute("/", "schema_version", kSchemaVersion);
  file.attribute("/", "kvtide_version", provenance.kvtide_version);
  file.attribute("/", "source_commit", provenance.source_commit);
  file.attribute("/", "source", fmt::format("kvtide {}", provenance.kvtide_version));
  file.attribute("/", "history", std::string("kvtide run"));
  file.attribute("/", "created", provenance.created);
  file.attribute("/", "experiment_yaml", head.experiment_yaml);
  file.attribute("/", "included_yaml", head.included_yaml);
  file.attribute("/", "experiment_overrides", head.experiment_overrides);
  file.attribute("/", "experiment_key", head.experiment_key);
  file.attribute("/", "num_runs", head.num_runs);
  std::vector<std::string> keys;
  for (const auto& [column, type] : head.axes) keys.push_back(column);
  file.attribute("/", "swept_keys", fmt::format("{}", fmt::join(keys, "\n")));
  if (head.shard) file.attribute("/", "shard", fmt::format("{}/{}", head.shard->index, head.shard->count));
  file.attribute("/", "warnings", head.warnings);
  file.attribute("/", "loss_model", summary.loss_model());
  const std::vector<std::int64_t> tokens = summary.loss_tokens();
  if (tokens.size() > 1) {
    file.attribute("/", "loss_tokens", tokens);
  } else {
    file.attribute("/", "loss_tokens", tokens.empty() ? std::int64_t{0} : tokens.front());
  }
}

}  // namespace

std::string run_file_path(const std::string& runs_folder, std::int64_t index) {
  return fmt::format("{}/{}.h5", runs_folder, run_name(index));
}

std::string creation_time() {
  std::time_t seconds = 0;
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH"); fixed != nullptr && *fixed != '\0') {
    const std::string text = fixed;
    // Year 9999 ends at 253402300799 s.
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || rest != text.data() + text.size() || seconds < 0 || seconds > 253402300799) {
      throw InputError(fmt::format("SOURCE_DATE_EPOCH: expected a count of seconds, got \"{}\"", text));
    }
  } else {
    seconds = std::time(nullptr);
  }
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

ResultsHead results_head(const Experiment& experiment) {
  ResultsHead head;
  head.title = without_nul(experiment.name);
  head.experiment_yaml = without_nul(experiment.yaml);
  head.included_yaml = without_nul(experiment.included_yaml);
  std::vector<std::string> sets;
  for (const auto& [key, value] : experiment.sets) sets.push_back(fmt::format("{}={}", key, value));
  head.experiment_overrides = without_nul(fmt::format("{}", fmt::join(sets, "\n")));
  head.experiment_key = hexadecimal(experiment.key);
  head.warnings = without_nul(fmt::format("{}", fmt::join(experiment.warnings, "\n")));
  head.num_runs = experiment.num_runs;
  for (const Axis& axis : experiment.axes) head.axes.emplace_back(axis.column, axis.type);
  head.shard = experiment.shard;
  return head;
}

RunRecord run_record(const Experiment& experiment, const Run& run) {
  RunRecord record{.index = run.index,
                   .key = hexadecimal(run.key),
                   .seed = hexadecimal(run.seed),
                   .compression = compression_text(run.setting),
                   .grid_offset = run.setting.compression.grid_offset,
                   .texts = {{"model", shown_name(run.setting.model)}, {"gpu", shown_name(run.setting.gpu)}},
                   .numbers = {{"context_tokens", run.setting.context_tokens},
                               {"batch", run.setting.batch},
                               {"loss_span", run.setting.loss.span}},
                   .labels = {},
                   .baseline = run.baseline};
  for (std::size_t axis = 0; axis < experiment.axes.size(); ++axis) {
    record.labels.push_back(experiment.axes[axis].labels[static_cast<std::size_t>(run.axis_values[axis])]);
  }
  return record;
}

void write_results(const std::string& path, const ResultsHead& head, const std::vector<RunRecord>& records,
                   const std::function<RunResult(std::size_t row)>& result_of, const Provenance& provenance) {
  const std::scoped_lock lock(hdf5::library_mutex());
  OutputFile file(path);
  Summary summary(head, records);
  for (std::size_t row = 0; row < records.size(); ++row) {
    const RunResult result = result_of(row);
    summary.add(row, result);
    write_run(file, fmt::format("/runs/{}", run_name(records[row].index)), records[row], result);
  }
  summary.compare_with_baselines();
  summary.write(file);
  write_root(file, head, provenance, summary);
  file.commit();
}

}  // namespace kvtide::experiment
