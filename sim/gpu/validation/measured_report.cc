#include "gpu/validation/measured_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/whole_file.h"
#include "gpu/validation/leave_out.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

struct Errors {
  std::vector<double> signed_errors;
  std::vector<double> absolute_us;
  std::int64_t refused = 0;
};

using GroupKey = std::tuple<std::string, std::string, std::string, std::string>;

/// Fixed order of the size octaves: the exponent leads in the key, the label follows.
std::string octave_key(double bytes) {
  const int exponent = bytes > 0 ? static_cast<int>(std::floor(std::log2(bytes / (1 << 20)))) : -20;
  return fmt::format("{:04d}", std::max(exponent, -20) + 100);
}

std::string octave_label(const std::string& key) {
  const int exponent = std::stoi(key) - 100;
  return fmt::format("[{:.4g}, {:.4g}) MiB", std::exp2(exponent), std::exp2(exponent + 1));
}

double nearest_rank(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

/// Mean of the two middle values where their number is even.
double median(const std::vector<double>& sorted) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

/// Collectives name their library and operation in "kernel" and "op_name"; the first of these columns that exists.
std::string framework_column_of(const config::CsvTable& table) {
  for (const char* column : {"framework", "kernel"})
    if (std::ranges::find(table.columns(), column) != table.columns().end()) return column;
  return "";
}

ErrorStatistics statistics_of(const Errors& found) {
  ErrorStatistics statistics = error_statistics(found.signed_errors, found.refused);
  std::vector<double> absolute = found.absolute_us;
  std::ranges::sort(absolute);
  statistics.absolute_median_us = median(absolute);
  return statistics;
}

std::vector<ErrorGroup> groups_of(const std::map<GroupKey, Errors>& errors) {
  std::vector<ErrorGroup> groups;
  for (const auto& [key, found] : errors) {
    const auto& [gpu, operation, framework, size_class] = key;
    groups.push_back({gpu, operation, framework, size_class, statistics_of(found)});
  }
  return groups;
}

}  // namespace

std::vector<std::string> measured_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".csv") found.push_back(entry.path().string());
    }
    if (found.empty()) throw InputError(fmt::format("{}: no files <gpu>_<operation>.csv here", path));
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ErrorStatistics error_statistics(std::vector<double> signed_errors, std::int64_t refused) {
  ErrorStatistics result;
  result.rows = static_cast<std::int64_t>(signed_errors.size());
  result.refused = refused;
  std::ranges::sort(signed_errors);
  result.signed_median = median(signed_errors);
  double sum = 0;
  for (double& error : signed_errors) {
    error = std::abs(error);
    sum += error;
  }
  std::ranges::sort(signed_errors);
  result.ape_mean =
      signed_errors.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(result.rows);
  result.ape_median = median(signed_errors);
  result.ape_p90 = nearest_rank(signed_errors, 0.9);
  return result;
}

MeasuredReport validate_measured(const std::vector<std::string>& paths, Fidelity fidelity, const std::string& rows_path,
                                 const std::string& left_out_gpu) {
  const std::vector<std::string> files = measured_files(paths);
  const std::string left_out =
      left_out_gpu.empty() || left_out_gpu == "each" ? left_out_gpu : load_gpu_profile(left_out_gpu).name;
  MeasuredReport report;
  std::map<GroupKey, Errors> classes, octaves;
  Errors overall;
  std::string written;
  std::map<std::string, GpuProfile> without;  // its own rows, by name of the profile
  for (const std::string& path : files) {
    const MeasuredFile file = parse_measured_file_name(path);
    GpuProfile profile = load_gpu_profile(file.gpu);
    if (!left_out.empty()) {
      if (file.operation == "compressed_decode" || (left_out != "each" && profile.name != left_out)) continue;
      if (!without.contains(profile.name)) {
        const bool is_plain = left_out == "each" && !has_rows_to_leave_out(profile.name);
        without.emplace(profile.name, is_plain ? profile : leave_out(profile.name, files));
      }
      profile = without.at(profile.name);
    }
    const config::CsvTable table = config::CsvTable::load(path);
    Gpu gpu(profile, fidelity);
    const double big = 4 * static_cast<double>(gpu.profile().l2_bytes);
    const std::string framework_column = framework_column_of(table);
    const bool has_parts = std::ranges::find(table.columns(), "op_name") != table.columns().end();
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      const double measured = table.number(row, "latency_us", -1e12, 1e12);  // computescale rows are differences
      const RowPrediction prediction = predict_row(gpu, file.operation, table, row);
      const std::string framework = framework_column.empty() ? "" : table.text(row, framework_column);
      const std::string operation = prediction.is_difference ? file.operation + " difference" : file.operation;
      report.rows.push_back({file.gpu, operation, framework, has_parts ? table.text(row, "op_name") : "",
                             prediction.bytes >= big, prediction.bytes, measured,
                             prediction.microseconds.value_or(std::numeric_limits<double>::quiet_NaN())});
      std::vector<Errors*> places{&classes[{file.gpu, operation, framework, "all"}],
                                  &octaves[{file.gpu, operation, framework, octave_key(prediction.bytes)}]};
      if (prediction.bytes >= big) places.push_back(&classes[{file.gpu, operation, framework, "big"}]);
      if (!prediction.is_difference) places.push_back(&overall);
      for (Errors* errors : places) {
        if (prediction.microseconds) errors->absolute_us.push_back(std::abs(*prediction.microseconds - measured));
        if (prediction.microseconds && measured > 0) {
          errors->signed_errors.push_back((*prediction.microseconds / measured - 1) * 100);
        } else if (!prediction.microseconds || !prediction.is_difference) {
          ++errors->refused;
        }
      }
      if (!rows_path.empty()) {
        // Tables of different operations have different columns; each starts with its own header.
        if (row == 0) written += fmt::format("gpu,operation,{},predicted_us\n", fmt::join(table.columns(), ","));
        written += fmt::format("{},{},{},{}\n", file.gpu, file.operation, table.line(row),
                               prediction.microseconds ? fmt::format("{:.3f}", *prediction.microseconds) : "");
      }
    }
  }
  if (!rows_path.empty()) write_whole_file(rows_path, written);
  report.groups = groups_of(classes);
  report.octaves = groups_of(octaves);
  report.overall = statistics_of(overall);
  for (ErrorGroup& group : report.octaves) group.size_class = octave_label(group.size_class);
  return report;
}

}  // namespace kvtide::gpu
