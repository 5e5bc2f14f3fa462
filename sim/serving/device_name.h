#pragma once
// From what a driver or a benchmark calls a GPU to the profile that describes it.

#include <string>

namespace kvtide::serving {

/// Letters and digits are compared, without case: "RTX4090" is rtx-4090. Else the longest profile name or alias that occurs in
/// either text: "NVIDIA RTX PRO 6000 Blackwell Server Edition" holds rtx-pro-6000-blackwell.
/// @throws InputError listing the known profiles
[[nodiscard]] std::string gpu_of_device(const std::string& gpu, const std::string& device_name);

/// Lower-case letters and digits of a name.
[[nodiscard]] std::string letters_and_digits(const std::string& text);

}  // namespace kvtide::serving
