#pragma once
// Subcommands: what each is called, takes and does. One file each; all are listed in commands().

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvtide::cli {

enum ExitCode : int {
  kDone = 0,
  kSomeRunsFailed = 1,  ///< the others are in the file, the failures listed in it
  kWrongInput = 2,      ///< usage, configuration or input file
  kEnvironment = 3,     ///< disk, permissions, missing programs
  kInterrupted = 130,   ///< what was finished is kept
};

struct Option {
  std::string name;      ///< "jobs", or "output,o" with a short form
  std::string argument;  ///< "N"; empty: a flag
  std::string help;      ///< with unit and default
};

/// What was typed after the subcommand. Every value is text; the command converts it with the checked functions below.
class Arguments {
 public:
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>> values;  ///< long name -> values in order; a flag has one empty value

  [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;  ///< the last one given
  [[nodiscard]] std::vector<std::string> all(const std::string& name) const;
  /// Whole decimal number in min..max. @throws InputError
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name, std::int64_t min, std::int64_t max) const;
};

struct Command {
  std::string name;
  std::string positional;  ///< "EXPERIMENT.yaml"
  std::size_t min_positional = 0;
  std::size_t max_positional = 0;
  std::string summary;
  std::vector<Option> options;
  std::vector<std::string> examples;
  int (*run)(const Arguments& arguments);
};

[[nodiscard]] const std::vector<Command>& commands();

/// Parses and runs `arguments` (without the program's name). Errors go to stderr as one message.
/// @return process exit code
int run_command_line(const std::vector<std::string>& arguments);

// One per file.
[[nodiscard]] Command demo_command();
[[nodiscard]] Command run_command();
[[nodiscard]] Command show_command();
[[nodiscard]] Command trace_command();
[[nodiscard]] Command report_command();
[[nodiscard]] Command plot_command();
[[nodiscard]] Command claims_command();
[[nodiscard]] Command explain_command();
[[nodiscard]] Command validate_command();
[[nodiscard]] Command diagnose_command();
[[nodiscard]] Command merge_command();
[[nodiscard]] Command export_command();
[[nodiscard]] Command doctor_command();
[[nodiscard]] Command completion_command();
[[nodiscard]] Command import_command();
[[nodiscard]] Command plan_command();
[[nodiscard]] Command calibrate_command();

}  // namespace kvtide::cli
