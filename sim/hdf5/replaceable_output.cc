#include "hdf5/replaceable_output.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"

namespace kvtide::hdf5 {

void require_replaceable(const std::string& path, std::span<const std::string> inputs) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) return;
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(path, input, failure)) {
      throw InputError(fmt::format("{}: is read by this command; results written there would replace it", path));
    }
  }
  // HDF5 file format specification, "Superblock": the signature of a file without a user block.
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, kSignature.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  const std::string_view found(begin.data(), static_cast<std::size_t>(file.gcount()));
  if (!found.empty() && found != kSignature) {
    throw InputError(
        fmt::format("{}: exists and is no results file; nothing replaces it (another -o, or remove it)", path));
  }
}

}  // namespace kvtide::hdf5
