#pragma once
// The command that goes on with an interrupted one.

#include <span>
#include <string>

#include "cli/command.h"

namespace kvtide::cli {

/// "kvtide NAME FILE -o OUTPUT --set KEY=VALUE ...", as a POSIX shell takes it: the first positional and, as given, the options that
/// decide what is computed. The caller adds --resume.
[[nodiscard]] std::string command_again(const std::string& name, const Arguments& arguments, const std::string& output,
                                        std::span<const char* const> options);

}  // namespace kvtide::cli
