#pragma once
// Options of serving stacks, and of what starts them, that change neither the cache nor a step.

#include <string_view>

namespace kvtide::experiment {

/// @param key  in lower case with underscores, without leading dashes
[[nodiscard]] bool is_harmless_flag(std::string_view key);

}  // namespace kvtide::experiment
