// The reader of run_file_fuzz.cc against files that HDF5 itself finds whole.

#include "hdf5_edits.h"
#include "run_file_fuzz.cc"
