#pragma once
// kvtide show resonance: the block grid against a model's rotary wavelengths.

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide::cli {

/// @param model_name   name or path, as load_model() takes it
/// @param block_sizes  comma-separated, 2..65536; empty: 16,32,64,128,256
/// @throws InputError  a model without rotary positions, a wrong block size
void show_resonance(const std::string& model_name, const std::string& block_sizes, bool as_json);

}  // namespace kvtide::cli
