#pragma once
// A small bar plot of a phase profile for terminals.

#include <span>
#include <string>

namespace kvtide::cli {

/// Eighth-block characters, `height` lines, at most `width` columns; each column shows the largest value of its phases,
/// so that no narrow spike disappears. Columns hold equally many phases; the last may hold fewer.
/// @param values  [phase], NaN where unmeasured; width, height >= 1
[[nodiscard]] std::string phase_plot(std::span<const double> values, std::size_t width, std::size_t height);

}  // namespace kvtide::cli
