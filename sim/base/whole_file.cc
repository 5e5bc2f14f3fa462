#include "base/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace kvtide {
namespace {

/// Calls again after a signal. @return what the last call did
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : value_(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  ~Descriptor() { (void)close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }
  /// @return false: what was written may not be on the disk
  bool close() {
    const int closing = std::exchange(value_, -1);
    // Linux has closed it also where a signal interrupted the call.
    return closing < 0 || ::close(closing) == 0 || errno == EINTR;
  }

 private:
  int value_;
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw EnvironmentError(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

void write_all(Descriptor& file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (written <= 0) fail(path, "cannot be written", written < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!file.close()) fail(path, "cannot be written", errno);
}

}  // namespace

std::string read_whole_file(const std::string& path, std::size_t max_bytes, std::string_view what) {
  // Never opens a pipe or a device, which may block or do things.
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) throw InputError(fmt::format("{}: no such file", path));
  if (!std::filesystem::is_regular_file(status)) throw InputError(fmt::format("{}: not a regular file", path));
  const Descriptor file(path, O_RDONLY);
  if (file.get() < 0) {
    if (errno == EACCES || errno == EPERM) throw InputError(fmt::format("{}: cannot be read (permissions?)", path));
    fail(path, "cannot be opened", errno);
  }
  struct stat found {};
  constexpr std::size_t kStep = std::size_t{1} << 16;
  const std::size_t expected =
      ::fstat(file.get(), &found) == 0 && found.st_size > 0 ? static_cast<std::size_t>(found.st_size) : 0;
  std::string bytes;
  std::size_t size = expected > max_bytes ? expected : 0;
  while (size <= max_bytes) {
    // One byte more than expected, so that the end is met in one read.
    bytes.resize(std::min(std::max(expected + 1, size + kStep), max_bytes + 1));
    const ssize_t taken = uninterrupted([&] { return ::read(file.get(), bytes.data() + size, bytes.size() - size); });
    if (taken < 0) fail(path, "cannot be read", errno);
    if (taken == 0) break;
    size += static_cast<std::size_t>(taken);
  }
  if (size > max_bytes) {
    throw InputError(fmt::format("{}: longer than {} bytes, the limit for {}", path, max_bytes, what));
  }
  bytes.resize(size);
  return bytes;
}

WholeFile::WholeFile(const std::string& path)
    : path_(path), partial_path_(fmt::format("{}.partial-{}", path, ::getpid())) {
  std::error_code ignored;
  if (std::filesystem::is_other(path, ignored)) {
    throw EnvironmentError(fmt::format("{}: is a device or a pipe; expected the name of a file", path));
  }
  const Descriptor file(partial_path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() < 0) fail(path_, "cannot be written", errno);
  is_partial_present_ = true;
}

WholeFile::~WholeFile() {
  if (is_partial_present_) ::unlink(partial_path_.c_str());
}

void WholeFile::commit(std::string_view bytes) {
  Descriptor file(partial_path_, O_WRONLY | O_TRUNC);
  if (file.get() < 0) fail(path_, "cannot be written", errno);
  write_all(file, path_, bytes);
  put_in_place();
}

void WholeFile::put_in_place() {
  Descriptor file(partial_path_, O_RDONLY);
  if (file.get() < 0 || uninterrupted([&] { return ::fsync(file.get()); }) != 0) {
    fail(path_, "cannot be written", errno);
  }
  if (!file.close()) fail(path_, "cannot be written", errno);
  if (uninterrupted([&] { return ::rename(partial_path_.c_str(), path_.c_str()); }) != 0) {
    fail(path_, "cannot be put in place", errno);
  }
  is_partial_present_ = false;
  // Some file systems refuse to sync a folder; the file itself is already whole under its name.
  const Descriptor folder(folder_of(path_), O_RDONLY | O_DIRECTORY);
  if (folder.get() >= 0) (void)::fsync(folder.get());
}

void write_whole_file(const std::string& path, std::string_view bytes) {
  struct stat named {};
  struct stat standard {};
  const bool exists = ::stat(path.c_str(), &named) == 0;
  if (exists && ::fstat(STDOUT_FILENO, &standard) == 0 && named.st_dev == standard.st_dev &&
      named.st_ino == standard.st_ino) {
    // Also where the shell made a file of it: after what was printed, and not in its place.
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) fail(path, "cannot be written", errno);
    return;
  }
  if (exists && !S_ISREG(named.st_mode) && !S_ISDIR(named.st_mode)) {
    Descriptor stream(path, O_WRONLY);
    if (stream.get() < 0) fail(path, "cannot be written", errno);
    write_all(stream, path, bytes);
    return;
  }
  WholeFile(path).commit(bytes);
}

}  // namespace kvtide
