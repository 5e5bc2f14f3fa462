#include "base/freed_memory.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  kvtide::keep_freed_memory();
  return kvtide::cli::run_command_line({argv + 1, argv + argc});
}
