#include "cli/version.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <boost/version.hpp>

#include "experiment/mpi_ranks.h"
#include "hdf5/library_version.h"

#ifndef KVTIDE_COMMIT
#define KVTIDE_COMMIT "unknown"
#endif

namespace kvtide::cli {

std::string version_text() {
  return fmt::format(
      "kvtide {} (commit {})\n  {}, compiler {}\n"
      "  HDF5 {}, Eigen {}.{}.{}, Boost {}.{}.{}, fmt {}.{}.{}, yaml-cpp {}, MPI {}\n",
      KVTIDE_VERSION, KVTIDE_COMMIT, KVTIDE_BUILD, __VERSION__, hdf5::library_version(), EIGEN_WORLD_VERSION,
      EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION, BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100,
      FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100, KVTIDE_YAML_CPP_VERSION,
      experiment::is_built_with_mpi() ? "yes" : "no");
}

std::string build_name() {
  return fmt::format("{} {}", KVTIDE_VERSION, KVTIDE_COMMIT);
}

}  // namespace kvtide::cli
