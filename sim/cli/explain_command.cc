#include <fmt/format.h>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "cli/command.h"
#include "cli/table.h"
#include "experiment/columns.h"

namespace kvtide::cli {
namespace {

std::string json_of(const experiment::Column& column) {
  return JsonObject()
      .text("name", column.name)
      .text("units", column.units)
      .text("definition", column.definition)
      .text("type", column.type == experiment::ColumnType::text ? "text" : "number")
      .str();
}

std::string all_json() {
  std::vector<std::string> objects;
  for (const experiment::Column& column : experiment::columns()) objects.push_back(json_of(column));
  return JsonObject().raw("columns", json_list(objects)).str();
}

int run(const Arguments& arguments) {
  const bool as_json = arguments.has("json");
  if (arguments.positional.empty()) {
    if (as_json) {
      fmt::print("{}\n", all_json());
      return kDone;
    }
    Table table({{"column", Align::left}, {"unit", Align::left}, {"definition", Align::left}});
    for (const experiment::Column& column : experiment::columns())
      table.add_row({column.name, column.units, column.definition});
    fmt::print("{}", table.text());
    return kDone;
  }
  const std::string& name = arguments.positional[0];
  if (const experiment::Column* column = experiment::find_column(name)) {
    fmt::print("{}\n", as_json ? json_of(*column)
                               : fmt::format("{} [{}]\n{}", column->name, column->units, column->definition));
    return kDone;
  }
  std::vector<std::string> names;
  for (const experiment::Column& column : experiment::columns()) names.emplace_back(column.name);
  const std::string nearest = nearest_name(name, names);
  throw InputError(fmt::format("no column \"{}\"{} (kvtide explain lists them; swept keys are columns of their own)",
                               name, nearest.empty() ? "" : ", did you mean " + nearest + "?"));
}

}  // namespace

Command explain_command() {
  return {.name = "explain",
          .positional = "[COLUMN]",
          .min_positional = 0,
          .max_positional = 1,
          .summary = "definition and unit of a column of the results",
          .options = {{"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide explain loss_worst", "kvtide explain"},
          .run = &run};
}

}  // namespace kvtide::cli
