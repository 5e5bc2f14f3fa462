// The reader of results_fuzz.cc against files that HDF5 itself finds whole.

#include "hdf5_edits.h"
#include "results_fuzz.cc"
