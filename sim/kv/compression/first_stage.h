#pragma once
// The stages of a setting by their kind.

#include "kv/compression/compression.h"

namespace kvtide::kv {

/// The first stage of a kind; null without one. Example: first_stage<Quantize>(setting).
template <typename Kind>
[[nodiscard]] const Kind* first_stage(const Compression& setting) {
  for (const Stage& stage : setting.stages) {
    if (const auto* found = std::get_if<Kind>(&stage)) return found;
  }
  return nullptr;
}

}  // namespace kvtide::kv
