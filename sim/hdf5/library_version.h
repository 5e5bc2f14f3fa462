#pragma once
#include <string>

namespace kvtide::hdf5 {

/// "1.10.8", of the library this program runs with.
[[nodiscard]] std::string library_version();

}  // namespace kvtide::hdf5
