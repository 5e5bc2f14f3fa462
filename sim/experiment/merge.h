#pragma once
// Joins the shards of one experiment into the file that one process would have written.

#include <string>
#include <vector>

namespace kvtide::experiment {

/// Arrays are rewritten and their scales attached anew; but for `created` the bytes are those of an unsharded run.
///
/// A run that is in several files is taken from the first in which it did not fail.
/// @param output  appears complete at the end, or not at all
/// @return number of runs written
/// @throws InputError  shards of different experiments or kvtide versions; missing runs, by name
std::size_t merge_results(const std::string& output, const std::vector<std::string>& shards);

}  // namespace kvtide::experiment
