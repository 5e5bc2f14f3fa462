#include "hdf5/library_version.h"

#include <fmt/format.h>
#include <hdf5.h>

namespace kvtide::hdf5 {

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace kvtide::hdf5
