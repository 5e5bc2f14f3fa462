#include "cli/validate_kept.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "experiment/validation/kept_report.h"

namespace kvtide::cli {
namespace {

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string cell(double value, const char* form) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : "-";
}

std::string row_json(const experiment::KeptRow& row) {
  return fmt::format(
      R"({{"method": {}, "layer": {}, "keep_ratio": {}, "agreement": {}, "score_error": {}, "known": {}, )"
      R"("differing": {}, "tied": {}, "value_error": {}, "note": {}}})",
      quoted_text(row.method), row.layer, row.keep_ratio, json_number(row.agreement), json_number(row.score_error),
      row.known, row.num_differing, row.num_tied, json_number(row.value_error), quoted_text(row.note));
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
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    experiment::KeptRow worst = rows[first];
    std::int64_t compared = 0;
    std::int64_t differing = 0;
    std::int64_t tied = 0;
    for (; end < rows.size() && rows[end].method == rows[first].method; ++end) {
      const experiment::KeptRow& row = rows[end];
      worst.agreement = std::fmin(worst.agreement, row.agreement);
      worst.score_error = std::fmax(worst.score_error, row.score_error);
      worst.value_error = std::fmax(worst.value_error, row.value_error);
      compared += std::isfinite(row.agreement) ? 1 : 0;
      differing += row.num_differing;
      tied += row.num_tied;
    }
    std::string note = worst.known ? worst.note : "not known here";
    if (std::isfinite(worst.value_error))
      note += fmt::format("merged values within {:.1e} of the largest", worst.value_error);
    table.add_row({worst.method, fmt::format("{}/{}", compared, end - first), cell(worst.agreement, "{:.5f}"),
                   fmt::format("{}", differing), fmt::format("{}", tied), cell(worst.score_error, "{:.1e}"), note});
    first = end;
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
