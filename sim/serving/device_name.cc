#include "serving/device_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "base/error.h"
#include "gpu/gpu_profile.h"

namespace kvtide::serving {

std::string letters_and_digits(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return kept;
}

std::string gpu_of_device(const std::string& gpu, const std::string& device_name) {
  const std::string wanted = letters_and_digits(gpu), device = letters_and_digits(device_name);
  std::string best;
  std::size_t best_length = 0;
  for (const std::string& name : gpu::known_gpus()) {
    std::vector<std::string> spellings = gpu::load_gpu_profile(name).aliases;
    spellings.push_back(name);
    for (const std::string& spelling : spellings) {
      const std::string known = letters_and_digits(spelling);
      if (known == wanted) return name;
      if (known.size() > best_length &&
          (device.find(known) != std::string::npos || wanted.find(known) != std::string::npos)) {
        best = name;
        best_length = known.size();
      }
    }
  }
  if (best.empty()) {
    throw InputError(fmt::format("no GPU profile for \"{}\" (device \"{}\"): known are {}", gpu, device_name,
                                 fmt::join(gpu::known_gpus(), ", ")));
  }
  return best;
}

}  // namespace kvtide::serving
