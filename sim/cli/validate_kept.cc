#include "cli/validate_kept.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "base/whole_file.h"
#include "cli/table.h"
#include "experiment/validation/kept_report.h"

namespace kvtide::cli {
namespace {

std::string cell(double value, const char* form) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : "-";
}

std::string row_json(const experiment::KeptRow& row) {
  return fmt::format(
      R"({{"method": {}, "layer": {}, "keep_ratio": {}, "agreement": {}, "score_error": {}, "rank_gap": {}, )"
      R"("known": {}, "differing": {}, "tied": {}, "value_error": {}, "note": {}}})",
      quoted_text(row.method), row.layer, row.keep_ratio, json_number(row.agreement), json_number(row.score_error),
      json_number(row.rank_gap), row.known, row.num_differing, row.num_tied, json_number(row.value_error),
      quoted_text(row.note));
}

/// A method over all its rows.
struct MethodSummary {
  experiment::KeptRow worst;
  std::int64_t num_rows = 0;
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  std::int64_t tied = 0;
};

std::vector<MethodSummary> summaries(const std::vector<experiment::KeptRow>& rows) {
  std::vector<MethodSummary> result;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    MethodSummary& summary = result.emplace_back();
    summary.worst = rows[first];
    experiment::KeptRow& worst = summary.worst;
    for (; end < rows.size() && rows[end].method == rows[first].method; ++end) {
      const experiment::KeptRow& row = rows[end];
      worst.agreement = std::fmin(worst.agreement, row.agreement);
      worst.score_error = std::fmax(worst.score_error, row.score_error);
      worst.rank_gap = std::fmax(worst.rank_gap, row.rank_gap);
      worst.value_error = std::fmax(worst.value_error, row.value_error);
      summary.compared += std::isfinite(row.agreement) ? 1 : 0;
      summary.differing += row.num_differing;
      summary.tied += row.num_tied;
    }
    summary.num_rows = static_cast<std::int64_t>(end - first);
    first = end;
  }
  return result;
}

void write_csv(const std::string& path, const std::vector<experiment::KeptRow>& rows) {
  std::string text = "method,compared,differing,tied,worst_agreement,worst_score_error\n";
  for (const MethodSummary& method : summaries(rows)) {
    text += fmt::format("{},{},{},{},{},{}\n", method.worst.method, method.compared, method.differing, method.tied,
                        cell(method.worst.agreement, "{:.5f}"), cell(method.worst.score_error, "{:.1e}"));
  }
  write_whole_file(path, text);
}

/// Every choice of ours, beside nothing that was measured.
void write_rows(const std::string& path, const std::vector<experiment::KeptRow>& rows) {
  std::string text = "method,layer,keep_ratio,note,chosen\n";
  for (const experiment::KeptRow& row : rows) {
    text += fmt::format("{},{},{},{},{}\n", row.method, row.layer, row.keep_ratio, row.note, row.chosen);
  }
  write_whole_file(path, text);
}

/// One line a method: the worst of its rows.
void print_table(const std::vector<experiment::KeptRow>& rows) {
  Table table({{"method", Align::left},
               {"compared", Align::right},
               {"worst agreement", Align::right},
               {"differing", Align::right},
               {"tied", Align::right},
               {"worst score error", Align::right},
               {"note", Align::left}});
  for (const MethodSummary& method : summaries(rows)) {
    const experiment::KeptRow& worst = method.worst;
    std::string note = worst.known ? worst.note : "not known here";
    if (std::isfinite(worst.value_error))
      note += fmt::format("merged values within {:.1e} of the largest", worst.value_error);
    if (std::isfinite(worst.rank_gap))
      note += fmt::format("ranks; values behind other ranks within {:.1e}", worst.rank_gap);
    table.add_row({worst.method, fmt::format("{}/{}", method.compared, method.num_rows),
                   cell(worst.agreement, "{:.5f}"), fmt::format("{}", method.differing), fmt::format("{}", method.tied),
                   cell(worst.score_error, "{:.1e}"), note});
  }
  fmt::print("{}", table.text());
}

}  // namespace

int validate_kept(const Arguments& arguments) {
  const std::vector<std::string>& files = arguments.positional;
  if (files.size() != 3 && files.size() != 4) {
    throw InputError("kvtide validate kept: expected TRACE.h5 [COMPANION.h5] REFERENCE.h5");
  }
  const attention::Trace trace = attention::Trace::open(files[1], files.size() == 4 ? files[2] : "");
  const std::vector<experiment::KeptRow> rows = experiment::compare_kept(trace, files.back());
  if (const auto path = arguments.text("output")) write_csv(*path, rows);
  if (const auto path = arguments.text("rows")) write_rows(*path, rows);
  if (!arguments.has("json")) {
    print_table(rows);
    return kDone;
  }
  std::vector<std::string> objects;
  for (const experiment::KeptRow& row : rows) objects.push_back(row_json(row));
  fmt::print("{{\"methods\": [\n  {}\n]}}\n", fmt::join(objects, ",\n  "));
  return kDone;
}

}  // namespace kvtide::cli
