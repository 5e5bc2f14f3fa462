#pragma once
// Files read whole and written whole. A stream of the C++ library takes an input/output error in mid-file for the end of the
// file, and leaves half a file where the disk fills up; what is read or written here is complete, or an error says why not.

#include <cstddef>
#include <string>
#include <string_view>

namespace kvtide {

/// The bytes of a regular file; a signal in between does not count.
/// @param what  of the limit's message: "a table"
/// @throws InputError        "p.csv: no such file", not a regular file, not readable, longer than `max_bytes`
/// @throws EnvironmentError  the disk does not give them
[[nodiscard]] std::string read_whole_file(const std::string& path, std::size_t max_bytes, std::string_view what);

/// A file being written under another name beside its own, PATH.partial-<process>, so that under its own name it is always
/// whole. The partial file is made at once (an unwritable folder is found before hours of work, not after) and goes with
/// the object. @throws EnvironmentError naming the file and the system's reason
class WholeFile {
 public:
  /// @throws EnvironmentError also when `path` is a device or a pipe: put in place of it, the file would take it from
  /// everybody else
  explicit WholeFile(const std::string& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// For whoever writes it by other means, then calls put_in_place().
  [[nodiscard]] const std::string& partial_path() const { return partial_path_; }

  /// Writes `bytes` as the whole content, then puts it in place.
  void commit(std::string_view bytes);
  /// The partial file as it stands on disk takes its name: synced, renamed, folder synced.
  void put_in_place();

 private:
  std::string path_;
  std::string partial_path_;
  bool is_partial_present_ = false;
};

/// WholeFile(path).commit(bytes). A stream (a pipe, a terminal, /dev/stdout, whatever the shell made of it) cannot be
/// replaced and gets the bytes as they are.
void write_whole_file(const std::string& path, std::string_view bytes);

}  // namespace kvtide
