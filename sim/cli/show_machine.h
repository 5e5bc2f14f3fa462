#pragma once
// `kvtide show machine --gpu X --pattern {...}`: what bandwidth an access pattern gets.

#include "cli/command.h"

namespace kvtide::cli {

/// One line with the answer, then bandwidth against the chunk size and against the bytes in flight, as bars; with
/// --json one document instead.
/// @throws InputError  no --gpu, or a pattern that cannot be read or is out of range
void show_machine(const Arguments& arguments);

}  // namespace kvtide::cli
