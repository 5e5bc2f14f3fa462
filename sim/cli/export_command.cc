#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "experiment/results_reader.h"

namespace kvtide::cli {
namespace {

/// A cell by RFC 4180: quoted where it holds a comma, a quote or a line end.
std::string cell_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::vector<std::string> chosen_columns(const Arguments& arguments, const experiment::ResultsReader& results) {
  const std::optional<std::string> wanted = arguments.text("columns");
  if (!wanted) return results.column_names();
  std::vector<std::string> columns;
  std::istringstream names(*wanted);
  for (std::string name; std::getline(names, name, ',');) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (name == "run") continue;  // leads every row
    if (std::ranges::find(results.column_names(), name) == results.column_names().end()) {
      const std::string nearest = nearest_name(name, results.column_names());
      throw InputError(fmt::format("--columns: {} has no column \"{}\"{} (it has {})", results.path(), name,
                                   nearest.empty() ? "" : "; did you mean " + nearest + "?",
                                   fmt::join(results.column_names(), ", ")));
    }
    columns.push_back(name);
  }
  if (columns.empty() && wanted->find("run") == std::string::npos) {
    throw InputError(fmt::format("--columns: expected at least one of {}, got \"{}\"",
                                 fmt::join(results.column_names(), ", "), *wanted));
  }
  return columns;
}

std::string csv_text(const experiment::ResultsReader& results, const std::vector<std::string>& columns) {
  std::string text = "run";
  for (const std::string& column : columns) {
    text += ',';
    text += cell_of(column);
  }
  text += "\n";
  for (std::size_t row = 0; row < results.records().size(); ++row) {
    text += fmt::format("{}", results.records()[row].index);
    for (const std::string& column : columns) {
      text += ',';
      if (results.is_text(column)) {
        text += cell_of(results.texts(column)[row]);
      } else if (results.is_integer(column)) {
        text += fmt::format("{}", results.integers(column)[row]);
      } else if (const double value = results.numbers(column)[row]; std::isfinite(value)) {
        text += fmt::format("{}", value);  // the shortest text that reads back as the same number; empty: no value
      }
    }
    text += "\n";
  }
  return text;
}

std::string json_text(const experiment::ResultsReader& results, const std::vector<std::string>& columns) {
  std::vector<std::string> rows;
  for (std::size_t row = 0; row < results.records().size(); ++row) {
    JsonObject object;
    object.number("run", results.records()[row].index);
    for (const std::string& column : columns) {
      if (results.is_text(column)) {
        object.text(column, results.texts(column)[row]);
      } else if (results.is_integer(column)) {
        object.number(column, results.integers(column)[row]);
      } else {
        object.number(column, results.numbers(column)[row]);
      }
    }
    rows.push_back(object.str());
  }
  return fmt::format("{{\"runs\": [\n  {}\n]}}\n", fmt::join(rows, ",\n  "));
}

int run(const Arguments& arguments) {
  const experiment::ResultsReader results(arguments.positional[0], experiment::Reading::summary);
  const std::vector<std::string> columns = chosen_columns(arguments, results);
  const std::string text = arguments.has("json") ? json_text(results, columns) : csv_text(results, columns);
  if (const auto output = arguments.text("output")) {
    std::error_code failure;
    if (std::filesystem::equivalent(*output, arguments.positional[0], failure))
      throw InputError(fmt::format("-o {}: is the file to read", *output));
    write_whole_file(*output, text);
  } else {
    fmt::print("{}", text);
  }
  return kDone;
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .positional = "FILE.h5",
          .min_positional = 1,
          .max_positional = 1,
          .summary = "the summary as CSV: one line a run, empty where there is no value; or as JSON, null there",
          .options = {{"output,o", "FILE.csv", "write there instead of stdout"},
                      {"columns", "A,B,...", "only these columns, in this order"},
                      {"json", "", "JSON instead of CSV"}},
          .examples = {"kvtide export results/demo.h5 -o demo.csv",
                       "kvtide export results/demo.h5 --columns memory_saving,loss_worst"},
          .run = &run};
}

}  // namespace kvtide::cli
