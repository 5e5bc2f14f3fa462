# A Debian package: cmake --build BUILD --target package (or cpack -G DEB in the build folder). Two of them:
#   kvtide       the program, its data, the ready experiments and the Python package that draws reports
#   kvtide-dev   headers, static libraries and the files that find_package(kvtide) reads
# Libraries that the program links are declared by dpkg-shlibdeps (package dpkg-dev); what the report imports, by hand.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kvtide)
set(CPACK_PACKAGE_VENDOR "the kvtide project")
set(CPACK_PACKAGE_CONTACT "the kvtide project <kvtide@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulator of KV-cache compression on modeled GPUs")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME kvtide)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
  "What a KV-cache compression setting buys on a GPU (bytes, time, users), and at which positions of the context it
loses information: with what period, how surely.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "python3 (>= 3.11), python3-h5py, python3-matplotlib, python3-numpy, \
python3-pandas, python3-plotly, python3-scipy, python3-xarray, python3-yaml")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME kvtide-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers and static libraries of kvtide, for find_package(kvtide).")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libboost-dev, libboost-graph-dev, libboost-program-options-dev, \
libeigen3-dev, libhdf5-dev, libyaml-cpp-dev, libfmt-dev")
if(MPI_CXX_FOUND)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", mpi-default-dev")
endif()
# The sources as an archive: cmake --build BUILD --target package_source.
set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME kvtide-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/build/;/results/;/\\\\.git;__pycache__")
include(CPack)
