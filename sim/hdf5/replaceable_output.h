#pragma once
// Whether a file may be replaced by one of HDF5, before hours of work go into the latter.

#include <span>
#include <string>

namespace kvtide::hdf5 {

/// Nothing, an empty file or a file of HDF5 that is none of `inputs` (by whatever name) may be replaced.
/// @throws InputError naming the file that would be lost
void require_replaceable(const std::string& path, std::span<const std::string> inputs);

}  // namespace kvtide::hdf5
