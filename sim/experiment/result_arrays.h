#pragma once
// A run's dimensions and arrays below one group of a file, written and read back: the same in a run file ("") and in the
// final file ("/runs/00012").

#include <string>

#include "experiment/result.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {

/// Writes them in their order, and that order as the group's attributes `dimension_paths` ("loss/position", one a line)
/// and `array_paths` ("loss/mass_loss(loss/position)", one a line). @param group "" or "/runs/00012", existing
void write_arrays(hdf5::OutputFile& file, const std::string& group, const RunResult& result);

/// Fills `dimensions` and `arrays` of the result. @throws InputError when the group was not written by write_arrays()
void read_arrays(const hdf5::InputFile& file, const std::string& group, RunResult& result);

/// Lines of a text, without empty ones at its end.
[[nodiscard]] std::vector<std::string> split_lines(const std::string& text);

}  // namespace kvtide::experiment
