#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/error.h"
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
    if (std::ranges::find(results.column_names(), name) == results.column_names().end()) {
      throw InputError(fmt::format("--columns: {} has no column \"{}\" (it has {})", results.path(), name,
                                   fmt::join(results.column_names(), ", ")));
    }
    columns.push_back(name);
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
      } else if (const double value = results.numbers(column)[row]; std::isfinite(value)) {
        text += fmt::format("{}", value);  // the shortest text that reads back as the same number; empty: no value
      }
    }
    text += "\n";
  }
  return text;
}

/// Partial, rename: the file is complete or not there.
void write_text(const std::string& path, const std::string& text) {
  std::error_code failure;
  if (std::filesystem::is_other(path, failure)) {
    throw EnvironmentError(fmt::format("{}: is a device or a pipe; without -o the table goes to stdout", path));
  }
  const std::string partial = fmt::format("{}.partial-{}", path, ::getpid());
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  bool is_good = file != nullptr;
  if (is_good) {
    is_good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    is_good = std::fclose(file) == 0 && is_good;
  }
  if (!is_good || std::rename(partial.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(partial.c_str());
    throw EnvironmentError(fmt::format("{}: cannot be written: {}", path, reason));
  }
}

int run(const Arguments& arguments) {
  const experiment::ResultsReader results(arguments.positional[0]);
  const std::string text = csv_text(results, chosen_columns(arguments, results));
  if (const auto output = arguments.text("output")) {
    write_text(*output, text);
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
          .summary = "the summary as CSV: one line a run, empty where there is no value",
          .options = {{"output,o", "FILE.csv", "write there instead of stdout"},
                      {"columns", "A,B,...", "only these columns, in this order"}},
          .examples = {"kvtide export results/demo.h5 -o demo.csv",
                       "kvtide export results/demo.h5 --columns memory_saving,loss_worst"},
          .run = &run};
}

}  // namespace kvtide::cli
