#include "base/error.h"

#include <fmt/format.h>

namespace kvtide::internal {

void assertion_failed(const char* condition, const char* file, int line, const std::string& what) {
  throw Error(Error::Kind::internal, fmt::format("{}:{}: {} ({})", file, line, what, condition));
}

}  // namespace kvtide::internal
