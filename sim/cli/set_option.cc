#include "cli/set_option.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::cli {

std::vector<std::pair<std::string, std::string>> set_option(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const std::string& assignment : arguments.all("set")) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(fmt::format("--set: expected path.to.key=value, got \"{}\"", assignment));
    }
    sets.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return sets;
}

}  // namespace kvtide::cli
