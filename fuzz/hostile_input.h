#pragma once
// What a reader may do with bytes that nobody vouches for: take them, or throw an error with a name.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <type_traits>

#include "base/error.h"

namespace kvtide::fuzz {

/// How many readings ended in an answer and how many in an error with a name; said at the program's end. A program that
/// takes nothing fuzzes the way to its reader, not the reader.
struct Tally {
  std::size_t taken = 0, refused = 0;
  ~Tally() { std::fprintf(stderr, "readings taken: %zu\nreadings refused: %zu\n", taken, refused); }
};
inline Tally tally;

/// Runs `read`, which may return whether it took what it read. InputError and EnvironmentError are answers; an internal
/// Error or any other exception is a finding: it ends the process, and libFuzzer keeps the input.
template <class Read>
void expect_answer(const Read& read) {
  try {
    bool is_taken = true;
    if constexpr (std::is_void_v<std::invoke_result_t<Read>>)
      read();
    else
      is_taken = read();
    ++(is_taken ? tally.taken : tally.refused);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::internal) throw;
    ++tally.refused;
  }
}

/// Bytes under a name, for readers that take a path. Goes with the object.
class NamedBytes {
 public:
  NamedBytes(const std::uint8_t* data, std::size_t size) {
    // In memory where there is such a folder. HDF5 asks for a real path, so a descriptor without one would not do.
    const char* folder = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    path_ = std::string(folder) + "/kvtide-fuzz-XXXXXX";
    const int descriptor = ::mkstemp(path_.data());
    std::size_t done = 0;
    while (descriptor >= 0 && done < size) {
      const ssize_t written = ::write(descriptor, data + done, size - done);
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    if (descriptor < 0 || done < size) std::abort();
    ::close(descriptor);
  }
  ~NamedBytes() { ::unlink(path_.c_str()); }
  NamedBytes(const NamedBytes&) = delete;
  NamedBytes& operator=(const NamedBytes&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvtide::fuzz

/// What libFuzzer calls with every input. @return 0
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
