#include "cli/validation_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

#include "base/error.h"
#include "cli/python_program.h"
#include "cli/version.h"
#include "experiment/result_writer.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::cli {
namespace {

/// Columns of equal length over one dimension.
class ColumnWriter {
 public:
  ColumnWriter(hdf5::OutputFile& file, std::string group, const std::string& dimension, std::size_t num_rows)
      : file_(file), group_(std::move(group)), scale_(group_ + "/" + dimension) {
    file_.create_group(group_);
    std::vector<std::int64_t> numbers(num_rows);
    std::iota(numbers.begin(), numbers.end(), 0);
    file_.dimension(scale_, numbers, {.long_name = "number of the " + dimension});
  }
  template <typename T>
  void write(const std::string& name, const std::vector<T>& values, const std::string& long_name,
             const std::string& units = "1") {
    file_.write(group_ + "/" + name, std::span<const T>(values), {scale_}, {long_name, units});
  }

 private:
  hdf5::OutputFile& file_;
  std::string group_;
  std::string scale_;
};

/// One column from every element.
template <typename Row, typename Get>
auto column(const std::vector<Row>& rows, Get get) {
  std::vector<decltype(get(rows.front()))> values;
  for (const Row& row : rows) values.push_back(get(row));
  return values;
}

void write_root(hdf5::OutputFile& file, const std::string& title) {
  file.attribute("/", "Conventions", std::string("CF-1.10"));
  file.attribute("/", "title", title);
  file.attribute("/", "kvtide_version", version_text());
  file.attribute("/", "created", experiment::creation_time());
}

void draw(const std::string& path) {
  const std::string picture = std::filesystem::path(path).replace_extension(".png").string();
  if (run_analysis({"validation", path, "-o", picture}) != 0) {
    throw EnvironmentError(fmt::format("{}: written, but {} could not be drawn (see above)", path, picture));
  }
}

void write_groups(hdf5::OutputFile& file, const std::vector<gpu::ErrorGroup>& groups) {
  ColumnWriter out(file, "/groups", "group", groups.size());
  using Group = gpu::ErrorGroup;
  out.write("gpu", column(groups, [](const Group& group) { return group.gpu; }), "GPU of the measurement");
  out.write("operation", column(groups, [](const Group& group) { return group.operation; }), "operation");
  out.write("framework", column(groups, [](const Group& group) { return group.framework; }), "framework");
  out.write("size_class", column(groups, [](const Group& group) { return group.size_class; }),
            "all, big (bytes >= 4 x L2) or an octave of bytes");
  out.write("rows", column(groups, [](const Group& group) { return group.errors.rows; }), "predicted rows");
  out.write("refused", column(groups, [](const Group& group) { return group.errors.refused; }),
            "rows that the model cannot represent");
  out.write("ape_mean", column(groups, [](const Group& group) { return group.errors.ape_mean; }), "mean absolute error",
            "percent");
  out.write("ape_median", column(groups, [](const Group& group) { return group.errors.ape_median; }),
            "median absolute error", "percent");
  out.write("ape_p90", column(groups, [](const Group& group) { return group.errors.ape_p90; }),
            "90th percentile of the absolute error", "percent");
  out.write("signed_median", column(groups, [](const Group& group) { return group.errors.signed_median; }),
            "median signed error, positive: predicted too slow", "percent");
}

}  // namespace

void write_validation(const std::string& path, const gpu::MeasuredReport& report) {
  {
    hdf5::OutputFile file(path);
    write_root(file, "kvtide validate measured");
    std::vector<gpu::ErrorGroup> groups = report.groups;
    groups.insert(groups.end(), report.octaves.begin(), report.octaves.end());
    write_groups(file, groups);
    using Row = gpu::MeasuredRowResult;
    ColumnWriter out(file, "/rows", "row", report.rows.size());
    out.write("gpu", column(report.rows, [](const Row& row) { return row.gpu; }), "GPU of the measurement");
    out.write("operation", column(report.rows, [](const Row& row) { return row.operation; }), "operation");
    out.write("framework", column(report.rows, [](const Row& row) { return row.framework; }), "framework");
    out.write("bytes", column(report.rows, [](const Row& row) { return row.bytes; }), "bytes of the row", "B");
    out.write("measured_us", column(report.rows, [](const Row& row) { return row.measured_us; }), "measured time",
              "us");
    out.write("predicted_us", column(report.rows, [](const Row& row) { return row.predicted_us; }),
              "predicted time, NaN where refused", "us");
    file.commit();
  }
  draw(path);
}

void write_validation(const std::string& path, const std::vector<gpu::DramRow>& rows) {
  {
    hdf5::OutputFile file(path);
    write_root(file, "kvtide validate dram");
    using Row = gpu::DramRow;
    const auto predicted = [](const Row& row, double value) { return row.run ? value : NAN; };
    ColumnWriter out(file, "/rows", "row", rows.size());
    out.write("simulator", column(rows, [](const Row& row) { return row.simulator; }), "simulator of the reference");
    out.write("standard", column(rows, [](const Row& row) { return row.standard; }), "memory standard");
    out.write("mapping", column(rows, [](const Row& row) { return row.mapping; }), "address map");
    out.write("pattern", column(rows, [](const Row& row) { return row.pattern; }), "request stream");
    out.write("variant", column(rows, [](const Row& row) { return row.variant; }), "queue and refresh variant");
    out.write("block_bytes", column(rows, [](const Row& row) { return row.block_bytes; }), "contiguous bytes", "B");
    out.write("achieved_fraction", column(rows, [](const Row& row) { return row.peak_fraction; }),
              "reference share of the peak bandwidth");
    out.write("predicted_fraction",
              column(rows, [&](const Row& row) { return predicted(row, row.outcome.peak_fraction); }),
              "our share of the peak bandwidth, NaN where the row cannot be run");
    out.write("row_hit_rate", column(rows, [](const Row& row) { return row.row_hit_rate; }), "reference row-hit rate");
    out.write("predicted_row_hit_rate",
              column(rows, [&](const Row& row) { return predicted(row, row.outcome.row_hit_rate); }),
              "our row-hit rate");
    out.write("mean_latency_ns", column(rows, [](const Row& row) { return row.mean_latency_ns; }),
              "reference mean read latency", "ns");
    out.write("predicted_mean_latency_ns",
              column(rows, [&](const Row& row) { return predicted(row, row.outcome.read_latency_ns); }),
              "our mean read latency", "ns");
    file.commit();
  }
  draw(path);
}

}  // namespace kvtide::cli
