#pragma once
// Where the shipped data lies: models/, hw_profiles/, experiments/.

#include <string>
#include <vector>

namespace kvtide {

/// The folder that holds models/, hw_profiles/ and experiments/: $KVTIDE_DATA_DIR, else <prefix>/share/kvtide of a
/// program in <prefix>/bin, else the source tree this binary was built from. @throws EnvironmentError when none exists
[[nodiscard]] std::string data_directory();

/// `name_or_path` itself when it names a file; else data_directory()/folder/name with one of `extensions`, whose names are in
/// lower case: a name in any case means one of them.
/// @throws InputError listing the known names and the nearest when neither exists
[[nodiscard]] std::string find_data_file(const std::string& folder, const std::string& name_or_path,
                                         const std::vector<std::string>& extensions);

/// Base names (without extension) of the files in data_directory()/folder, sorted.
[[nodiscard]] std::vector<std::string> list_data_files(const std::string& folder,
                                                       const std::vector<std::string>& extensions);

/// The element of `known` nearest to `word` by edit distance; empty when none is within half of the word's length.
[[nodiscard]] std::string nearest_name(const std::string& word, const std::vector<std::string>& known);

}  // namespace kvtide
