#include "experiment/result_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "experiment/columns.h"
#include "experiment/run_file.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

using hdf5::Description;
using hdf5::OutputFile;

std::string without_nul(std::string text) {
  std::erase(text, '\0');
  return text;
}

void write_run(OutputFile& file, const std::string& group, const Run& run, const RunResult& result) {
  file.create_group(group);
  file.attribute(group, "run_key", fmt::format("{:016x}", run.key));
  file.attribute(group, "compression", compression_text(run.setting));
  file.attribute(group, "grid_offset_setting", run.setting.compression.grid_offset);
  file.attribute(group, "status", to_string(result.status));
  for (const ResultDimension& dimension : result.dimensions) {
    std::visit(
        [&](const auto& values) {
          file.dimension(fmt::format("{}/{}", group, dimension.path), values, {dimension.long_name, dimension.units});
        },
        dimension.values);
  }
  for (const ResultArray& array : result.arrays) {
    std::vector<std::string> dimensions;
    for (const std::string& dimension : array.dimensions) dimensions.push_back(fmt::format("{}/{}", group, dimension));
    std::visit(
        [&](const auto& values) {
          file.write(fmt::format("{}/{}", group, array.path), std::span(values), dimensions,
                     {array.long_name, array.units});
        },
        array.values);
  }
}

/// Values of every column, run by run.
class Summary {
 public:
  explicit Summary(const Experiment& experiment) : experiment_(experiment) {
    for (const Column& column : columns()) {
      if (column.type == ColumnType::number) {
        numbers_[column.name].assign(experiment.runs.size(), std::numeric_limits<double>::quiet_NaN());
      } else {
        texts_[column.name].assign(experiment.runs.size(), "");
      }
    }
  }

  void add(std::size_t row, const Run& run, const RunResult& result) {
    for (const auto& [name, value] : result.numbers) numbers_[name][row] = value;
    for (const auto& [name, value] : result.texts) texts_[name][row] = without_nul(value);
    texts_["status"][row] = to_string(result.status);
    texts_["status_reason"][row] = result.status_reason;
    texts_["warnings"][row] = fmt::format("{}", fmt::join(result.warnings, "; "));
    texts_["loss_model"][row] = result.loss_model;
    texts_["run_seed"][row] = fmt::format("{:016x}", run.seed);
    texts_["compression_setting"][row] = compression_text(run.setting);
    if (!result.loss_model.empty()) {
      numbers_["loss_tokens"][row] = static_cast<double>(result.loss_tokens);
      loss_models_.insert(result.loss_model);
      loss_tokens_.insert(result.loss_tokens);
    }
  }

  void write(OutputFile& file) const {
    std::vector<std::int64_t> indices(experiment_.runs.size());
    std::iota(indices.begin(), indices.end(), 0);
    file.dimension("/summary/run", indices, {"index of the run; its arrays are in /runs/<index, five digits>", "1"});
    for (std::size_t axis = 0; axis < experiment_.axes.size(); ++axis) write_axis(file, axis);
    for (const Column& column : columns()) {
      const std::string path = fmt::format("/summary/{}", column.name);
      const Description description{column.definition, column.units};
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
    const Axis& axis = experiment_.axes[axis_index];
    const std::string path = fmt::format("/summary/{}", axis.column);
    const Description description{fmt::format("swept key {}", axis.column), "1"};
    const auto label_of = [&](const Run& run) -> const std::string& {
      return axis.labels[static_cast<std::size_t>(run.axis_values[axis_index])];
    };
    std::vector<std::int64_t> integers;
    std::vector<double> numbers;
    std::vector<std::string> texts;
    for (const Run& run : experiment_.runs) {
      const std::string& label = label_of(run);
      std::int64_t integer = 0;
      double number = 0;
      std::from_chars(label.data(), label.data() + label.size(), integer);
      std::from_chars(label.data(), label.data() + label.size(), number);
      integers.push_back(integer);
      numbers.push_back(number);
      texts.push_back(without_nul(label));
    }
    switch (axis.type) {
      case AxisType::integer:
        return file.write(path, std::span<const std::int64_t>(integers), {"/summary/run"}, description);
      case AxisType::number:
        return file.write(path, std::span<const double>(numbers), {"/summary/run"}, description);
      case AxisType::text:
        return file.write(path, std::span<const std::string>(texts), {"/summary/run"}, description);
    }
  }

  const Experiment& experiment_;
  std::map<std::string, std::vector<double>> numbers_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::set<std::string> loss_models_;
  std::set<std::int64_t> loss_tokens_;
};

void write_root(OutputFile& file, const Experiment& experiment, const Provenance& provenance, const Summary& summary) {
  file.attribute("/", "title", without_nul(experiment.name));
  file.attribute("/", "Conventions", std::string("CF-1.10"));
  file.attribute("/", "schema_version", kSchemaVersion);
  file.attribute("/", "kvtide_version", provenance.kvtide_version);
  file.attribute("/", "source_commit", provenance.source_commit);
  file.attribute("/", "source", fmt::format("kvtide {}", provenance.kvtide_version));
  file.attribute("/", "history", std::string("kvtide run"));
  file.attribute("/", "created", provenance.created);
  file.attribute("/", "experiment_yaml", without_nul(experiment.yaml));
  std::vector<std::string> sets;
  for (const auto& [key, value] : experiment.sets) sets.push_back(fmt::format("{}={}", key, value));
  file.attribute("/", "experiment_overrides", without_nul(fmt::format("{}", fmt::join(sets, "\n"))));
  file.attribute("/", "experiment_key", fmt::format("{:016x}", experiment.key));
  file.attribute("/", "warnings", without_nul(fmt::format("{}", fmt::join(experiment.warnings, "\n"))));
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

void write_results(const std::string& path, const Experiment& experiment, const std::string& runs_folder,
                   const Provenance& provenance) {
  const std::scoped_lock lock(hdf5::library_mutex());
  OutputFile file(path);
  Summary summary(experiment);
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    const Run& run = experiment.runs[row];
    const std::string run_path = run_file_path(runs_folder, run.index);
    const std::optional<RunResult> result = read_run_file(run_path, run.key);
    if (!result) throw InputError(fmt::format("{}: no complete result of this run; use --resume", run_path));
    summary.add(row, run, *result);
    write_run(file, fmt::format("/runs/{}", run_name(run.index)), run, *result);
  }
  summary.write(file);
  write_root(file, experiment, provenance, summary);
  file.commit();
}

}  // namespace kvtide::experiment
