#pragma once
// What a reader may do with bytes that nobody vouches for: take them, or throw an error with a name.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace kvtide::fuzz {

/// Runs `read`. InputError and EnvironmentError are answers; an internal Error or any other exception is a finding: it
/// ends the process, and libFuzzer keeps the input.
template <class Read>
void expect_answer(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::internal) throw;
  }
}

/// Bytes under a name, for readers that take a path. Lies in memory and goes with the object.
class NamedBytes {
 public:
  NamedBytes(const std::uint8_t* data, std::size_t size) : descriptor_(::memfd_create("hostile", MFD_CLOEXEC)) {
    std::size_t done = 0;
    while (descriptor_ >= 0 && done < size) {
      const ssize_t written = ::write(descriptor_, data + done, size - done);
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    if (descriptor_ < 0 || done < size) std::abort();
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~NamedBytes() { ::close(descriptor_); }
  NamedBytes(const NamedBytes&) = delete;
  NamedBytes& operator=(const NamedBytes&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace kvtide::fuzz

/// What libFuzzer calls with every input. @return 0
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
