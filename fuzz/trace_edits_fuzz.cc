// The reader of trace_fuzz.cc against files that HDF5 itself finds whole.

#include "hdf5_edits.h"
#include "trace_fuzz.cc"
