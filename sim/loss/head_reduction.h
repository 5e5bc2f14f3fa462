#pragma once
// How the losses of many heads become one profile over positions.

#include <cstdint>
#include <string_view>

namespace kvtide::loss {

/// How the heads of all layers become one profile.
enum class HeadReduction : std::uint8_t {
  reader,  ///< ratio of sums: a position is lost to the extent that the heads that read it lose it
  mean,    ///< mean of the heads' relative losses
  max,     ///< largest of the heads' relative losses
};
[[nodiscard]] std::string_view to_string(HeadReduction reduction);
/// @throws InputError listing reader, mean, max
[[nodiscard]] HeadReduction head_reduction_from_string(std::string_view text);

}  // namespace kvtide::loss
