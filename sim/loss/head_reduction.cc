#include "loss/head_reduction.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace kvtide::loss {
namespace {

constexpr std::array<std::pair<HeadReduction, std::string_view>, 3> kReductions = {
    {{HeadReduction::reader, "reader"}, {HeadReduction::mean, "mean"}, {HeadReduction::max, "max"}}};

}  // namespace

std::string_view to_string(HeadReduction reduction) {
  for (const auto& [value, name] : kReductions) {
    if (value == reduction) return name;
  }
  return "";
}

HeadReduction head_reduction_from_string(std::string_view text) {
  for (const auto& [value, name] : kReductions) {
    if (name == text) return value;
  }
  throw InputError(fmt::format("expected one of reader, mean, max, got \"{}\"", text));
}

}  // namespace kvtide::loss
