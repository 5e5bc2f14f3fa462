#include "cli/command.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <cstdio>
#include <new>
#include <sstream>
#include <system_error>

#include "base/data_directory.h"
#include "base/error.h"
#include "cli/version.h"

namespace kvtide::cli {
namespace {
namespace po = boost::program_options;

po::options_description description_of(const Command& command) {
  po::options_description options("Options", 80, 40);
  for (const Option& option : command.options) {
    if (option.argument.empty()) {
      options.add_options()(option.name.c_str(), option.help.c_str());
    } else {
      options.add_options()(option.name.c_str(),
                            po::value<std::vector<std::string>>()->composing()->value_name(option.argument),
                            option.help.c_str());
    }
  }
  options.add_options()("help,h", "this text");
  return options;
}

void print_help(const Command& command) {
  std::ostringstream options;
  options << description_of(command);
  constexpr std::size_t kWidth = 100;
  const std::string takes = (command.positional.empty() ? "" : command.positional + " ") + "[options]";
  const std::string usage = fmt::format("Usage: kvtide {} ", command.name);
  const char* const line_break = usage.size() + takes.size() > kWidth ? "\n  " : "";
  fmt::print("{}{}{}\n{}\n\n{}\nExamples:\n", usage, line_break, takes, command.summary, options.str());
  for (const std::string& example : command.examples) fmt::print("  {}\n", example);
}

void print_overview() {
  fmt::print(
      "kvtide: what a KV-cache compression setting buys on a GPU (bytes, time, concurrent users), and at which "
      "positions of\n"
      "the context it loses information: with what period, and how surely.\n\nUsage: kvtide COMMAND [options]\n\n");
  for (const Command& command : commands()) fmt::print("  {:<10} {}\n", command.name, command.summary);
  fmt::print(
      "\nkvtide COMMAND --help explains a command; kvtide --version tells the build.\n"
      "In the source tree ./kvtide builds first and has three more: test [--all], bench [ROOM] [--compare] and fuzz.\n"
      "Exit codes: 0 done, 1 some runs failed, 2 wrong usage or input, 3 environment, 130 interrupted.\n");
}

Arguments parse(const Command& command, const std::vector<std::string>& words) {
  po::options_description options = description_of(command);
  po::options_description with_positional;
  with_positional.add(options).add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);
  namespace style = po::command_line_style;
  // Guessing would take --jo for --jobs or --join, whichever exists in this version.
  const int strict = style::unix_style & ~style::allow_guessing;
  Arguments arguments;
  try {
    const po::parsed_options parsed =
        po::command_line_parser(words).options(with_positional).positional(positional).style(strict).run();
    for (const po::option& option : parsed.options) {
      if (option.string_key == "positional") {
        arguments.positional.insert(arguments.positional.end(), option.value.begin(), option.value.end());
      } else {
        auto& values = arguments.values[option.string_key];
        values.push_back(option.value.empty() ? "" : option.value.front());
      }
    }
  } catch (const po::error& error) {
    throw InputError(
        fmt::format("kvtide {}: {} (kvtide {} --help lists the options)", command.name, error.what(), command.name));
  }
  if (arguments.has("help")) return arguments;
  const std::size_t given = arguments.positional.size();
  if (given < command.min_positional || given > command.max_positional) {
    throw InputError(fmt::format("kvtide {}: expected {}, got {} argument{} (kvtide {} --help shows examples)",
                                 command.name, command.positional.empty() ? "no argument" : command.positional, given,
                                 given == 1 ? "" : "s", command.name));
  }
  return arguments;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
    print_overview();
    return words.empty() ? kWrongInput : kDone;
  }
  if (words.front() == "--version") {
    fmt::print("{}", version_text());
    return kDone;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == words.front()) {
      const Arguments arguments = parse(command, {words.begin() + 1, words.end()});
      if (arguments.has("help")) {
        print_help(command);
        return kDone;
      }
      return command.run(arguments);
    }
    names.push_back(command.name);
  }
  if (words.front() == "test" || words.front() == "bench") {
    throw InputError(
        fmt::format("kvtide {0}: builds first, so it is run in the source tree: ./kvtide {0}", words.front()));
  }
  const std::string nearest = nearest_name(words.front(), names);
  throw InputError(fmt::format("unknown command \"{}\"{} (kvtide --help lists them)", words.front(),
                               nearest.empty() ? "" : ", did you mean " + nearest + "?"));
}

}  // namespace

std::optional<std::string> Arguments::text(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second.back());
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::vector<std::string>{} : found->second;
}

std::optional<std::int64_t> Arguments::integer(const std::string& name, std::int64_t min, std::int64_t max) const {
  const std::optional<std::string> given = text(name);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc{} || rest != given->data() + given->size() || value < min || value > max) {
    throw InputError(fmt::format("--{}: expected an integer in {}..{}, got \"{}\"", name, min, max, *given));
  }
  return value;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      demo_command(),  run_command(),      show_command(),     trace_command(),      report_command(),
      plot_command(),  claims_command(),   diagnose_command(), explain_command(),    validate_command(),
      merge_command(), export_command(),   doctor_command(),   completion_command(), import_command(),
      plan_command(),  calibrate_command()};
  return table;
}

int run_command_line(const std::vector<std::string>& arguments) {
  try {
    const int code = dispatch(arguments);
    // Figures that a full disk or a closed pipe did not take must not pass for printed.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw EnvironmentError("standard output cannot be written (disk full, or the reader is gone)");
    }
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    switch (error.kind()) {
      case Error::Kind::input:
        return kWrongInput;
      case Error::Kind::environment:
        return kEnvironment;
      case Error::Kind::internal:
        fmt::print(stderr, "This is a mistake in kvtide, not in your input.\n");
        return kEnvironment;
    }
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "out of memory\n");
  } catch (const std::system_error& error) {
    fmt::print(stderr, "{}\n", error.what());  // the standard library's word for a failed system call
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\nThis is a mistake in kvtide, not in your input.\n", error.what());
  }
  return kEnvironment;
}

}  // namespace kvtide::cli
