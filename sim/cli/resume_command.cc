#include "cli/resume_command.h"

#include <fmt/format.h>

#include <string_view>

namespace kvtide::cli {
namespace {

/// In single quotes where it holds more than letters, digits and _@%+=:,./-
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

}  // namespace

std::string command_again(const std::string& name, const Arguments& arguments, const std::string& output,
                          std::span<const char* const> options) {
  std::string command =
      fmt::format("kvtide {} {} -o {}", name, shell_word(arguments.positional[0]), shell_word(output));
  for (const char* option : options) {
    for (const std::string& value : arguments.all(option)) {
      command += value.empty() ? fmt::format(" --{}", option) : fmt::format(" --{} {}", option, shell_word(value));
    }
  }
  return command;
}

}  // namespace kvtide::cli
